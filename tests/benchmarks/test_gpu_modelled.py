"""The model of a GPU's times beside what was measured."""

import dataclasses

import pytest

from benchmarks.gpu import modelled
from benchmarks.models.pytorch.table import FULL


def test_families_of_a_step_have_times_and_stand_beside_measured_ones() -> None:
    found = modelled.families_of(dataclasses.replace(FULL["lenet"], batch=8), "host-opencl")
    assert {"forward", "data gradients", "weight gradients", "pooling"} <= {*found}
    assert all(ms > 0 for ms in found.values())
    measured = {"forward": {"ms": found["forward"] / 2}, "attention": {"ms": 1.0}}
    ((family, ms, ratio),) = modelled.ratios_of(found, measured)
    assert (family, ratio) == ("forward", pytest.approx(2))
    *_, last = modelled.report([("lenet", family, ms, ratio), ("lenet", "pooling", 1.0, 1.0)])
    assert last == "median of all: 1.50 of 2; 1 within a factor of 1.5"
