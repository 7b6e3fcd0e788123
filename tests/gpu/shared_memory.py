"""Every place of shared memory that a kernel reads or writes, by evaluating its indices.

Devices of this machine let a group write beyond its memory, and say nothing.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import tvm_ffi
from tvm import ir, s_tir, tirx

# The buffer, its size, the index, and the conditions under which it is reached.
Access = tuple[Any, int, ir.Expr, list[ir.Expr]]
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


class SharedMemory:
    """The accesses of a kernel, before it is lowered.

    Each variable of a loop or of work-items is an axis of numpy's arrays, so that a place is
    evaluated for all of their values at once.
    """

    def __init__(self, kernel: tirx.PrimFunc) -> None:
        self._values: dict[Any, np.ndarray] = {}
        self._loops = 0
        self._kernel = kernel

    def outside(self) -> list[str]:
        """Accesses beyond their buffer, as text; each buffer of the kernel is one of its own."""
        found = list(self._of(self._kernel.body, []))
        assert found, "a kernel without shared memory"
        return [
            str(buffer)
            for buffer, size, index, tests in found
            if self._is_outside(size, index, tests)
        ]

    def _is_outside(self, size: int, index: ir.Expr, tests: list[ir.Expr]) -> bool:
        is_ramp = isinstance(index, tirx.Ramp)
        first = self._number(index.base if is_ramp else index)
        last = first + (int(index.lanes) - 1 if is_ramp else 0)
        happens = np.True_
        for test in tests:
            happens = np.logical_and(happens, self._number(test))
        return bool(np.any(happens & ((first < 0) | (last >= size))))

    def _of(self, node: Any, tests: list[ir.Expr]) -> Iterator[Access]:
        """Yields the accesses of a statement, which runs where tests hold."""
        if isinstance(node, s_tir.SBlockRealize):
            yield from self._of(node.block.body, tests)
        elif isinstance(node, tirx.For):
            self._bind(node)
            yield from self._of(node.body, tests)
        elif isinstance(node, tirx.SeqStmt):
            for each in node.seq:
                yield from self._of(each, tests)
        elif isinstance(node, tirx.IfThenElse):
            assert node.else_case is None
            yield from self._of(node.then_case, [*tests, node.condition])
        elif isinstance(node, tirx.BufferStore):
            reads: list[ir.TensorLoad] = []
            tvm_ffi.structural_walk(node.value, (ir.TensorLoad, reads.append))
            for buffer, indices in [
                (node.buffer, node.indices),
                *((each.source, each.indices) for each in reads),
            ]:
                if str(buffer.scope()) == "shared":
                    (size,), (index,) = buffer.shape, indices
                    yield buffer, int(size), index, tests
        else:
            assert isinstance(node, tirx.Evaluate), type(node)

    def _bind(self, loop: tirx.For) -> None:
        if not isinstance(loop.extent, tirx.IntImm):
            # The steps of a part, on which no place of shared memory depends.
            return
        self._values[loop.loop_var] = np.arange(int(loop.extent)).reshape(-1, *[1] * self._loops)
        self._loops += 1

    def _number(self, node: Any) -> np.ndarray:
        if isinstance(node, tirx.IntImm):
            return np.asarray(int(node))
        if isinstance(node, ir.Var):
            return self._values[node]
        of = _OF_TWO[type(node).__name__]
        return of(self._number(node.a), self._number(node.b))
