"""What a window reads outside of an image is zero: by a mask of the bits of what is read.

    held = element                       the reads of the next slice are on their way
    ...                                  while this one is multiplied
    near = held & (inside ? -1 : 0)      the masks are looked at when the elements are there

A mask that is looked at at once waits for its element, and so does all that is multiplied
meanwhile, so conditions are kept as long as elements: in one register, for all turns of an item.
"""

from collections.abc import Callable

import tvm
from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812
from tvm.sym import Analyzer

from odtc.backends.kernels.common.places import index

# Conditions that a register holds.
_MOST = 32


def or_zero(condition: ir.Expr, element: ir.Expr) -> ir.Expr:
    """An element whose place is inside in any case, or zero where a condition does not hold.

    Items side by side differ in the condition, and loads behind branches wait for each other: with
    NVIDIA's driver for Vulkan a convolution took up to twice as long. Of a choice with a load TVM
    makes a branch, so its bits are kept or not. In OpenCL it stays a branch: PoCL computes some
    convolutions wrong with masks unless it makes loops of work-items, and that masks gain there was
    not measured.
    """
    target = tvm.target.Target.current(allow_none=True)
    if target and str(target.kind) == "opencl":
        return tirx.if_then_else(condition, element, tirx.const(0.0, element.ty.dtype))
    kept = tirx.Select(condition, tirx.const(-1, "int32"), tirx.const(0, "int32"))
    return tirx.reinterpret("float32", tirx.reinterpret("int32", element) & kept)


def unmasked(value: ir.Expr) -> tuple[ir.Expr, ir.Expr] | None:
    """The element of `or_zero`, which may be read in any case, and its condition.

    Returns:
        None where the value is no such choice, or is one by a branch.
    """
    bits = value.args[0] if _is_reinterpreted(value) else None
    if not isinstance(bits, tirx.BitwiseAnd) or not isinstance(bits.b, tirx.Select):
        return None
    return (bits.a.args[0], bits.b.condition) if _is_reinterpreted(bits.a) else None


def _is_reinterpreted(value: ir.Expr) -> bool:
    return isinstance(value, ir.Call) and value.op.name == "tirx.reinterpret"


class LateMasks:
    """The conditions of an item's elements, whose reads come first; see above.

    Args:
        read: of a turn, the element.
        turns: of the item.
        item: number of the item, and how many there are.
    """

    def __init__(self, read: Callable[[ir.Expr], ir.Expr], turns: int, item: ir.Expr, items: int):
        turn = tirx.Var("turn", "int32")
        choice = unmasked(read(turn)) if turns <= _MOST else None
        self._is_kept, self._is_common = choice is not None, False
        if choice is None:
            return
        self._kept = T.sblock_alloc_buffer((1,), "int32", scope="local")
        known = Analyzer()
        known.bind(turn, ir.Range(0, turns))
        known.bind(item, ir.Range(0, items))
        names = tirx.analysis.undefined_vars(known.simplify(choice[1]))
        self._is_common = not any(each.same_as(turn) for each in names)

    def start(self) -> None:
        """Emits what comes before the turns of a slice."""
        if self._is_kept and not self._is_common:
            T.buffer_store(self._kept, index(0), [0])

    def without(self, turn: ir.Expr, value: ir.Expr) -> ir.Expr:
        """The element of a turn as it is read; emits the keeping of its condition."""
        if not self._is_kept:
            return value
        choice = unmasked(value)
        assert choice is not None, value
        element, condition = choice
        if self._is_common:
            kept = tirx.Select(condition, index(-1), index(0))
        else:
            bit = tirx.Select(condition, tirx.shift_left(index(1), turn), index(0))
            kept = tirx.bitwise_or(self._kept[0], bit)
        T.buffer_store(self._kept, kept, [0])
        return element

    def masked(self, turn: ir.Expr, value: ir.Expr) -> ir.Expr:
        """The element of a turn, or zero."""
        if not self._is_kept:
            return value
        mask = self._kept[0]
        if not self._is_common:
            # The sign of a number is that of all its bits.
            mask = tirx.shift_right(tirx.shift_left(mask, index(_MOST - 1) - turn), _MOST - 1)
        bits = tirx.reinterpret("int32", value)
        return tirx.reinterpret("float32", tirx.bitwise_and(bits, mask))
