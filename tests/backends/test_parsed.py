"""Kernels in TVMScript: what TVM's own decorator makes of them, without a look at callers."""

import inspect

import pytest
import tvm
from tvm import tirx
from tvm.script import tirx as T  # noqa: N812

from odtc.backends.kernels.gather import take


def taken() -> tirx.PrimFunc:
    return take.take_kernel(1, 4, 8, 3, "float16", "int64")


def test_it_is_what_tvm_makes_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = taken()
    monkeypatch.setattr(take, "parsed", T)
    tvm.ir.assert_structural_equal(ours, taken())
    assert ours.attrs["s_tir"]
    assert "global_symbol" not in ours.attrs


def test_no_caller_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    def stack(*_: object) -> None:
        raise AssertionError("the stack is read")

    monkeypatch.setattr(inspect, "stack", stack)
    assert isinstance(taken(), tirx.PrimFunc)
