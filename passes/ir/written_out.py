"""How large an expression is once its kernel is one: what it reads stands where it is read.

Code generators for CPUs write an exponential as a polynomial of named values, and TVM's analyzer
puts each value in the place of its name. So one of an exponential of an exponential grows by the
power, and some of them in a row take longer than anybody waits.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import ir, tirx


@dataclass(frozen=True)
class Growth:
    """The expansion of a call of a function.

    Attributes:
        size: of the expression in its place, without its argument.
        copies: of its argument in that.
    """

    size: int
    copies: int


# By the names of TVM's intrinsics, of which all others stay calls, or of classes of expressions.
Grown = Mapping[str, Growth]
_OPERANDS = ("a", "b", "value", "body", "condition", "true_value", "false_value")


def size_of(value: ir.Expr, sizes: Mapping[Any, int], grown: Grown) -> int:
    """Nodes of an expression when it is written out.

    Args:
        value: it; indices of what it reads are not counted.
        sizes: of tensors and variables that are written out where they are read; 1 of others.
        grown: what calls become.
    """
    if isinstance(value, ir.TensorLoad):
        return sizes.get(value.source, 1)
    if isinstance(value, tirx.Let):
        named = size_of(value.value, sizes, grown)
        return size_of(value.body, {**sizes, value.var: named}, grown)
    if isinstance(value, ir.Var):
        return sizes.get(value, 1)
    inner = sum(size_of(each, sizes, grown) for each in _operands(value))
    growth = grown.get(value.op.name if _is_operator(value) else type(value).__name__)
    return 1 + inner if growth is None else growth.size + growth.copies * inner


def growth_of(value: ir.Expr, argument: ir.Var) -> Growth:
    """The expansion of a call: an expression of its argument."""
    with_none, with_one = (size_of(value, {argument: at}, {}) for at in (0, 1))
    return Growth(with_none, with_one - with_none)


def kernel_sizes(
    kernel: tirx.PrimFunc, operands: Sequence[int], grown: Grown
) -> tuple[int, Sequence[int]]:
    """The largest expression of a kernel, and the sizes of its results for who reads them.

    Args:
        kernel: of blocks that are not scheduled yet.
        operands: sizes of what it reads.
        grown: what calls become.
    """
    sizes = dict(zip(kernel.params, operands, strict=False))
    stores: list[tirx.BufferStore] = []
    tvm_ffi.structural_walk(kernel.body, (tirx.BufferStore, stores.append))
    largest = 1
    for store in stores:
        size = size_of(store.value, sizes, grown)
        largest = max(largest, size)
        # A sum is in memory before anything reads it.
        sizes[store.buffer] = 1 if _reads(store.value, store.buffer) else size
    return largest, [sizes.get(each, 1) for each in kernel.params[len(operands) :]]


def _operands(value: ir.Expr) -> list[ir.Expr]:
    if isinstance(value, ir.Call):
        return [each for each in value.args if isinstance(each, ir.Expr)]
    found = [getattr(value, name, None) for name in _OPERANDS]
    return [each for each in found if isinstance(each, ir.Expr)]


def _is_operator(value: ir.Expr) -> bool:
    return isinstance(value, ir.Call) and isinstance(value.op, ir.Op)


def _reads(value: ir.Expr, tensor: ir.Var) -> bool:
    loads: list[ir.TensorLoad] = []
    tvm_ffi.structural_walk(value, (ir.TensorLoad, loads.append))
    return any(load.source.same_as(tensor) for load in loads)
