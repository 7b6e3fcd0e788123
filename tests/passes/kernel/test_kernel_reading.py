"""Facts read from a kernel's loops: which results depend on which arguments, and its work."""

from typing import Any

import pytest
from tvm import tirx
from tvm.script import tirx as T  # noqa: N812

from odtc.backends.kernels.common import parsed
from odtc.passes.checkpoint import work
from odtc.passes.checkpoint.dependence import dependence
from odtc.passes.checkpoint.work import operations


def named(kernel: tirx.PrimFunc) -> dict[str, set[str]]:
    """Dependence by the names of arguments."""
    return {
        written.name: {each.name for each in read} for written, read in dependence(kernel).items()
    }


def test_results_depend_on_what_is_read_for_them() -> None:
    @parsed.prim_func(private=True, s_tir=True)
    def kernel(
        x: T.Buffer((8,), "float32"),
        old: T.Buffer((1,), "float32"),
        y: T.Buffer((8,), "float32"),
        new: T.Buffer((1,), "float32"),
    ):
        total = T.alloc_buffer((1,), "float32")
        total[0] = T.float32(0)
        for i in range(8):
            total[0] = total[0] + x[i]
        for i in range(8):
            y[i] = x[i] - total[0]
        new[0] = old[0] + total[0]

    assert named(kernel) == {"y": {"x"}, "new": {"x", "old"}}


def test_conditions_and_indices_count_as_read() -> None:
    @parsed.prim_func(private=True, s_tir=True)
    def kernel(
        x: T.Buffer((8,), "float32"),
        at: T.Buffer((8,), "int32"),
        mask: T.Buffer((8,), "bool"),
        count: T.Buffer((1,), "int32"),
        y: T.Buffer((8,), "float32"),
        z: T.Buffer((8,), "float32"),
    ):
        for i in range(8):
            y[at[i]] = x[i]
            if mask[i]:
                for j in range(count[0]):
                    z[j] = T.float32(1)

    assert named(kernel) == {"y": {"x", "at"}, "z": {"mask", "count"}}


def test_what_is_bound_to_a_name_is_followed() -> None:
    @parsed.prim_func(private=True, s_tir=True)
    def kernel(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32")):
        for i in range(8):
            value = T.Bind(x[i] * T.float32(2))
            y[i] = value

    assert named(kernel)["y"] == {"x"}


def test_operations_of_loops_and_vectors_are_counted() -> None:
    @parsed.prim_func(private=True, s_tir=True)
    def kernel(
        a: T.Buffer((4, 32), "float32"),
        b: T.Buffer((32, 16), "float32"),
        c: T.Buffer((4, 16), "float32"),
    ):
        for i in range(4):
            for k in range(32):
                row = T.Ramp(0, 1, 16)
                c[i, row] = c[i, row] + T.Broadcast(a[i, k], 16) * b[k, row]

    assert operations(kernel) == 2 * 4 * 32 * 16


def test_the_longest_that_a_loop_may_be() -> None:
    @parsed.prim_func(private=True, s_tir=True)
    def kernel(x: T.Buffer((10,), "float32"), y: T.Buffer((10,), "float32")):
        for block in range(3):
            for i in range(T.min(4, 10 - block * 4)):
                y[block * 4 + i] = x[block * 4 + i] + T.float32(1)

    assert operations(kernel) == 3 * 4


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The loops that are bound in an analyzer."""
    names: list[str] = []

    class Counted(work.Analyzer):
        def bind(self, var: Any, *others: Any) -> None:
            names.append(var.name)
            super().bind(var, *others)

    monkeypatch.setattr(work, "Analyzer", Counted)
    return names


def test_constant_lengths_are_not_worked_out(told: list[str]) -> None:
    @parsed.prim_func(private=True, s_tir=True)
    def kernel(y: T.Buffer((4, 5), "float32")):
        for i in range(4):
            for j in range(5):
                y[i, j] = y[i, j] + T.float32(1)

    assert operations(kernel) == 4 * 5
    assert told == []


def test_others_are_with_the_loops_around_them_alone(told: list[str]) -> None:
    @parsed.prim_func(private=True, s_tir=True)
    def kernel(y: T.Buffer((30,), "float32")):
        for block in range(3):
            for i in range(2):
                y[i] = y[i] + T.float32(1)
            for row in range(2):
                for j in range(T.min(4, 10 - block * 4 - row)):
                    y[block * 4 + j] = y[block * 4 + j] + T.float32(1)
                for k in range(T.min(3, row + 1)):
                    y[k] = y[k] + T.float32(1)

    assert operations(kernel) == 3 * (2 + 2 * (4 + 2))
    assert told == ["block", "row"]


def test_a_length_that_is_bound_to_a_name_is_known() -> None:
    @parsed.prim_func(private=True, s_tir=True)
    def kernel(x: T.Buffer((10,), "float32"), y: T.Buffer((10,), "float32")):
        for block in range(3):
            length = T.Bind(T.min(4, 10 - block * 4))
            for i in range(length):
                y[block * 4 + i] = x[block * 4 + i] + T.float32(1)

    assert operations(kernel) == 3 * 4


def test_what_stands_under_an_attribute_counts() -> None:
    @parsed.prim_func(private=True, s_tir=True)
    def kernel(y: T.Buffer((10,), "float32")):
        with T.attr(0, "hint", 1):
            for i in range(10):
                y[i] = y[i] + T.float32(1)

    assert operations(kernel) == 10


def test_a_length_that_is_data_counts_once() -> None:
    @parsed.prim_func(private=True, s_tir=True)
    def kernel(count: T.Buffer((1,), "int64"), y: T.Buffer((10,), "float32")):
        for i in range(count[0]):
            y[i] = y[i] + T.float32(1)

    assert operations(kernel) == 1
