"""Every place of memory that a kernel reads or writes, by evaluating its indices.

Devices of this machine let a group reach beyond its memory and beyond tensors, and say nothing.
"""

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tvm_ffi
from tvm import ir, s_tir, tirx

from odtc.core.ir.matrix_calls import LOAD, SIZE, STORE, name_of

# The buffer, its indices, and conditions under which it is reached, with what each has to be.
Tests = list[tuple[ir.Expr, bool]]
Access = tuple[Any, Sequence[ir.Expr], Tests]
_OF_TWO = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "FloorDiv": np.floor_divide,
    "FloorMod": np.mod,
    "Min": np.minimum,
    "Max": np.maximum,
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
    "EQ": np.equal,
    "And": np.logical_and,
    "Or": np.logical_or,
}
_CHOICE = "prim.if_then_else"


def is_shared(buffer: Any) -> bool:
    """Whether a group has it."""
    return str(buffer.scope()) == "shared"


def is_tensor(buffer: Any) -> bool:
    """Whether it is an argument of the kernel, or lies between its launches."""
    return str(buffer.scope()) == "global"


class Accesses:
    """The accesses of a kernel, before it is lowered.

    Each variable of a loop or of work-items is an axis of numpy's arrays, so that a place is
    evaluated for all of their values at once. What depends on a loop whose extent is computed is
    left out.

    Args:
        kernel: that is looked at.
        of: whether a buffer is looked at.
    """

    def __init__(self, kernel: tirx.PrimFunc, of: Callable[[Any], bool]) -> None:
        self._values: dict[Any, np.ndarray] = {}
        self._loops, self._kernel, self._is_looked_at = 0, kernel, of
        self._items: Any = None

    def outside(self) -> list[str]:
        """Accesses beyond their buffer, as text; each buffer of the kernel is one of its own."""
        found = [
            self._is_outside(buffer, indices, tests)
            for buffer, indices, tests in self._of(self._kernel.body, [])
            if self._is_looked_at(buffer)
        ]
        known = [each for each in found if each is not None]
        assert known, "a kernel without such memory"
        return [each for each in known if each]

    def step_of_items(self) -> int:
        """From the last index of the last access to that of the item beside, of the first group."""
        *_, (_, indices, _) = (
            access for access in self._of(self._kernel.body, []) if self._is_looked_at(access[0])
        )
        last = indices[-1]
        places = self._number(last.base if isinstance(last, tirx.Ramp) else last)
        assert self._items is not None
        axis = places.ndim - self._values[self._items].ndim
        first = np.moveaxis(places, axis, 0)
        return int(first[1].ravel()[0] - first[0].ravel()[0])

    def _is_outside(self, buffer: Any, indices: Sequence[ir.Expr], tests: Tests) -> str | None:
        """The buffer's name; empty if its place is inside, and None where that is not known."""
        happens = np.True_
        for test, holds in tests:
            # What depends on data may be either.
            with contextlib.suppress(KeyError):
                happens = np.logical_and(happens, self._number(test) == holds)
        try:
            beyond = np.False_
            for size, each in zip(buffer.shape, indices, strict=True):
                is_ramp = isinstance(each, tirx.Ramp)
                first = self._number(each.base if is_ramp else each)
                last = first + (int(each.lanes) - 1 if is_ramp else 0)
                beyond = np.logical_or(beyond, (first < 0) | (last >= int(size)))
        except KeyError:
            return None
        return str(buffer) if np.any(happens & beyond) else ""

    def _of(self, node: Any, tests: Tests) -> Iterator[Access]:
        """Yields the accesses of a statement, which runs where tests hold."""
        if isinstance(node, s_tir.SBlockRealize):
            for each, value in zip(node.block.iter_vars, node.iter_values, strict=True):
                self._name(each.var, value)
            yield from self._of(node.block.body, tests)
        elif isinstance(node, tirx.For):
            before = self._loops
            self._bind(node)
            yield from self._of(node.body, tests)
            self._loops = before
        elif isinstance(node, tirx.SeqStmt):
            for each in node.seq:
                yield from self._of(each, tests)
        elif isinstance(node, tirx.IfThenElse):
            yield from self._read(node.condition, tests)
            yield from self._of(node.then_case, [*tests, (node.condition, True)])
            if node.else_case is not None:
                yield from self._of(node.else_case, [*tests, (node.condition, False)])
        elif isinstance(node, tirx.BufferStore):
            yield node.buffer, node.indices, tests
            yield from self._read(node.value, tests)
        elif isinstance(node, tirx.Bind):
            yield from self._read(node.value, tests)
            self._name(node.var, node.value)
        else:
            assert isinstance(node, tirx.Evaluate), type(node)
            yield from _of_matrix(node.value, tests)

    def _read(self, node: Any, tests: Tests) -> Iterator[Access]:
        """Yields the reads of an expression; a choice reads what it chooses alone."""
        choices: list[ir.Call] = []
        inner: set[Any] = set()

        def look(call: ir.Call) -> None:
            if getattr(call.op, "name", "") == _CHOICE:
                choices.append(call)

        tvm_ffi.structural_walk(node, (ir.Call, look))
        for condition, *ways in (call.args for call in choices):
            for way, holds in zip(ways, (True, False), strict=True):
                own: list[ir.TensorLoad] = []
                tvm_ffi.structural_walk(way, (ir.TensorLoad, own.append))
                inner.update(own)
                for each in own:
                    yield each.source, each.indices, [*tests, (condition, holds)]
        loads: list[ir.TensorLoad] = []
        tvm_ffi.structural_walk(node, (ir.TensorLoad, loads.append))
        for each in loads:
            if each not in inner:
                yield each.source, each.indices, tests

    def _bind(self, loop: tirx.For) -> None:
        if isinstance(loop.extent, tirx.IntImm):
            axes = itertools.repeat(1, self._loops)
            self._values[loop.loop_var] = np.arange(int(loop.extent)).reshape(-1, *axes)
            self._loops += 1
            of = loop.thread_binding
            if of is not None and of.thread_tag == "threadIdx.x":
                self._items = loop.loop_var

    def _name(self, variable: Any, value: ir.Expr) -> None:
        # A number of another kind is no part of a place.
        with contextlib.suppress(KeyError):
            self._values[variable] = self._number(value)

    def _number(self, node: Any) -> np.ndarray:
        if isinstance(node, tirx.IntImm):
            return np.asarray(int(node))
        if isinstance(node, ir.Var):
            return self._values[node]
        of = _OF_TWO[type(node).__name__]
        return of(self._number(node.a), self._number(node.b))


def _of_matrix(call: Any, tests: Tests) -> Iterator[Access]:
    """Yields the lines of a matrix that a subgroup loads or stores."""
    if name_of(call) not in (LOAD, STORE):
        return
    *_, address, pitch, _ = call.args
    (element,) = address.args
    (first,) = element.indices
    for line in range(SIZE):
        yield element.source, [tirx.Ramp(first + line * int(pitch), 1, SIZE)], tests
