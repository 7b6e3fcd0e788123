"""Padding: a frame of constants, or of elements that the tensor has already."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from tvm import relax
from tvm.relax import op as R  # noqa: N812

from odtc.frontend.axis_map import AxisMap, apply_axis_map
from odtc.frontend.operators.operator import Emit, Node, Operator

# The modes that copy elements; their names are numpy's too.
_COPYING: dict[str, Literal["reflect", "edge", "wrap"]] = {
    "reflect": "reflect",
    "edge": "edge",
    "wrap": "wrap",
}


def pad(node: Node, emit: Emit, name: str, pads: list[int], value: float = 0.0) -> str:
    """Emits a constant Pad in the form of the node's opset; `pads` are begins, then ends."""
    if node.opset < 11:
        return emit("Pad", name, mode="constant", pads=pads, value=value)
    return emit("Pad", name, np.array(pads, np.int64), value, mode="constant")


def amounts_of(node: Node) -> list[tuple[int, int]]:
    """Elements before and after, for each dimension; negative ones are cut off."""
    pads = node.ints("pads", 1)
    pads = pads if pads is not None else node.ints("paddings")
    if pads is None:
        raise ValueError("the amounts of padding are not constant")
    listed = node.ints("axes", 3)
    axes = list(range(node.rank())) if listed is None else [a % node.rank() for a in listed]
    amounts = {a: (pads[i], pads[i + len(axes)]) for i, a in enumerate(axes)}
    return [amounts.get(axis, (0, 0)) for axis in range(node.rank())]


def _value(node: Node) -> float:
    given = node.number("value", 2)
    return 0.0 if given is None else float(given)


def _pad(node: Node) -> str:
    """Amounts, axes and value must be constant."""
    if node.ints("pads", 1) is None and node.ints("paddings") is None:
        return "the amounts of padding must be constant"
    if node.has(3) and node.constant(3) is None:
        return "the axes must be constant"
    if node.has(2) and node.constant(2) is None:
        return "the value must be constant"
    mode = node.attrs.get("mode", "constant")
    if mode != "constant" and mode not in _COPYING:
        return f"unknown mode {mode!r}"
    return ""


def _convert(builder: relax.BlockBuilder, node: Node, inputs: Sequence[Any]) -> relax.Expr:
    data, amounts = inputs[0], amounts_of(node)
    mode = node.attrs.get("mode", "constant")
    if mode != "constant":
        return _copying(builder, data, amounts, _COPYING[mode])
    if any(min(pair) < 0 for pair in amounts):
        data = builder.emit(_cut(data, amounts))
    widths = [max(amount, 0) for pair in amounts for amount in pair]
    return R.nn.pad(data, widths, "constant", _value(node)) if any(widths) else data


def _cut(data: relax.Expr, amounts: list[tuple[int, int]]) -> relax.Expr:
    sizes = [int(size) for size in data.ty.shape]
    return R.strided_slice(
        data,
        axes=list(range(len(sizes))),
        begin=[max(-before, 0) for before, _ in amounts],
        end=[size - max(-after, 0) for size, (_, after) in zip(sizes, amounts, strict=True)],
    )


def _copying(
    builder: relax.BlockBuilder,
    data: relax.Expr,
    amounts: list[tuple[int, int]],
    mode: Literal["reflect", "edge", "wrap"],
) -> relax.Expr:
    """One axis after the other; numpy says which element each new one copies."""
    for axis, (before, after) in enumerate(amounts):
        if before or after:
            size = int(data.ty.shape[axis])
            kept = np.arange(max(-before, 0), size - max(-after, 0))
            indices = np.pad(kept, (max(before, 0), max(after, 0)), mode)
            data = apply_axis_map(builder, data, axis, AxisMap.gather(indices, size))
    return data


def _constant_target(node: Node) -> str:
    """The target's sizes must be constant, the input's shape known."""
    if node.constant(1) is None:
        return "the sizes to crop and pad to must be constant"
    if node.inputs[0] not in node.graph.shapes:
        return "the input's shape is not static"
    sizes, axes = node.ints("", 1) or [], node.attrs.get("axes", range(node.rank()))
    valid = len(sizes) == len(axes) and all(-node.rank() <= axis < node.rank() for axis in axes)
    return "" if valid else f"{len(sizes)} sizes do not fit the axes {list(axes)}"


def _center_crop_pad(node: Node, emit: Emit) -> str:
    """Cut off or padded by as much at both ends; an odd element more goes at the end."""
    shape, target = node.shape(), node.ints("", 1) or []
    axes = [axis % len(shape) for axis in node.attrs.get("axes", range(len(shape)))]
    surplus = dict.fromkeys(range(len(shape)), 0)
    surplus |= {axis: target[at] - shape[axis] for at, axis in enumerate(axes)}
    before = [abs(amount) // 2 * (1 if amount > 0 else -1) for amount in surplus.values()]
    behind = [amount - front for amount, front in zip(surplus.values(), before, strict=True)]
    zero = np.zeros((), node.dtype())
    return emit("Pad", node.inputs[0], np.array([*before, *behind], np.int64), zero)


OPERATORS: dict[str, Operator] = {
    "CenterCropPad": Operator(condition=_constant_target, expand=_center_crop_pad),
    "Pad": Operator(condition=_pad, convert=_convert),
}
