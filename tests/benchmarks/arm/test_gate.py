"""A change of what kernels execute on ARM is seen: it is recorded anew, or mended."""

import json

import pytest

from benchmarks.arm.cores import Core
from tests.benchmarks.arm.gate import COMPILED, MODELS, RECORDED, counts_of

# As far as two runs may differ: step to step it is 0.06 and 0.3 %.
_NEAR = {"instructions": 0.005, "first_level_misses": 0.03, "flops": 0.005}


@pytest.mark.parametrize("core", COMPILED, ids=lambda core: core.name)
@pytest.mark.parametrize("model", MODELS)
def test_counts_are_those_that_are_recorded(model: str, core: Core) -> None:
    recorded = json.loads(RECORDED.read_text())[model][core.name]
    found = counts_of(model, core)
    changed = {
        name: f"{found[name]:,} were {recorded[name]:,}"
        for name, near in _NEAR.items()
        if abs(found[name] - recorded[name]) > near * recorded[name]
    }
    assert not changed, "run `python -m tests.benchmarks.arm.gate` where that is meant"
