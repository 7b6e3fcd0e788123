"""The benchmark of planning: the times of its stages."""

from pathlib import Path

import pytest

from benchmarks.plan_time.__main__ import PlanRow, planned


@pytest.mark.parametrize("in_python", [False, True])
def test_stages_make_the_whole(tmp_path: Path, in_python: bool) -> None:
    row = planned("digits", 1, tmp_path, in_python=in_python)
    assert {"start", "read the model", "make the kernels", "look for plans"} <= {*row.wall}
    assert row.wall.keys() == row.processor.keys()
    assert row.budgets > 0


def test_the_table_has_kernels_and_plans_apart() -> None:
    spent = {"start": 1.0, "make the kernels": 2.0, "make those of 2 micro-batches": 3.0}
    row = PlanRow("m", 8, {"start": 9.0}, spent | {"look for plans": 4.0}, 16)
    assert row.cells() == ("m", "8", "9.0", "10.0", "5.0", "4.0", "1.0", "16")
