"""Counts of two small networks as kernels for ARM are compiled, which change with these alone.

`python -m tests.benchmarks.arm.gate` writes those of now.
"""

import json
import tempfile
from pathlib import Path

from benchmarks.arm.cores import CORES, Core
from benchmarks.arm.figures import profile_of
from benchmarks.arm.ours import counted_odtc
from benchmarks.arm.places import Places
from benchmarks.step_time.cases import case_of

RECORDED = Path(__file__).parent / "recorded.json"
# A core that kernels for phones are made for, and a large one.
COMPILED = [CORES[name] for name in ("Cortex-A55", "Cortex-A76")]
# Samples of a step, by model.
MODELS = {"lenet": 4, "digits": 8}


def counts_of(model: str, core: Core) -> dict[str, int]:
    """Instructions, lines that the first level did not have, and operations of a step."""
    case = case_of(model, MODELS[model])
    with tempfile.TemporaryDirectory() as folder:
        counted = counted_odtc(case, core, 1, Path(folder))
    (step,) = counted.steps
    total = profile_of(step, Places(counted.mappings), core).total
    return {
        "instructions": total.instructions,
        "first_level_misses": total.missed[0],
        "flops": total.flops,
    }


if __name__ == "__main__":
    found = {name: {core.name: counts_of(name, core) for core in COMPILED} for name in MODELS}
    RECORDED.write_text(json.dumps(found, indent=1) + "\n")
