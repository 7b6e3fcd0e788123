"""A change of what kernels execute on ARM is seen: it is recorded anew, or mended."""

import json
from itertools import product

import pytest

from benchmarks.arm.cores import Core
from tests.benchmarks.arm.gate import COMPILED, MODELS, RECORDED, counts_of
from tests.fast import fast_if

# As far as two runs may differ: step to step it is 0.06 and 0.3 %.
_NEAR = {"instructions": 0.005, "first_level_misses": 0.03, "flops": 0.005}


# Each model on one core, and each core with one model.
FAST = ("lenet", "Cortex-A55"), ("digits", "Cortex-A76")


def is_fast(case: tuple[str, Core]) -> bool:
    return (case[0], case[1].name) in FAST


def name_of(case: tuple[str, Core]) -> str:
    return f"{case[0]}-{case[1].name}"


@pytest.mark.parametrize("case", fast_if(is_fast, product(MODELS, COMPILED)), ids=name_of)
def test_counts_are_those_that_are_recorded(case: tuple[str, Core]) -> None:
    model, core = case
    recorded = json.loads(RECORDED.read_text())[model][core.name]
    found = counts_of(model, core)
    changed = {
        name: f"{found[name]:,} were {recorded[name]:,}"
        for name, near in _NEAR.items()
        if abs(found[name] - recorded[name]) > near * recorded[name]
    }
    assert not changed, "run `python -m tests.benchmarks.arm.gate` where that is meant"
