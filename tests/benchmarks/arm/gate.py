"""Counts of two small networks on an emulated Cortex-A76, which change with kernels for ARM alone.

`python -m tests.benchmarks.arm.gate` writes those of now.
"""

import json
import tempfile
from pathlib import Path

from benchmarks.arm.cores import CORES
from benchmarks.arm.figures import profile_of
from benchmarks.arm.ours import counted_odtc
from benchmarks.arm.places import Places
from benchmarks.step_time.cases import case_of

RECORDED = Path(__file__).parent / "recorded.json"
CORE = CORES["Cortex-A76"]
# Samples of a step, by model.
MODELS = {"lenet": 4, "digits": 8}


def counts_of(model: str) -> dict[str, int]:
    """Instructions, lines that the first level did not have, and operations of a step."""
    case = case_of(model, MODELS[model])
    with tempfile.TemporaryDirectory() as folder:
        counted = counted_odtc(case, CORE, 1, Path(folder))
    (step,) = counted.steps
    total = profile_of(step, Places(counted.mappings), CORE).total
    return {
        "instructions": total.instructions,
        "first_level_misses": total.missed[0],
        "flops": total.flops,
    }


if __name__ == "__main__":
    RECORDED.write_text(json.dumps({name: counts_of(name) for name in MODELS}, indent=1) + "\n")
