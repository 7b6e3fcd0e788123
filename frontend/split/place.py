"""How operators move the samples of a batch: where they lie in the results.

A rule says where samples are in the results of an operator that computes each of them alone; for
one that mixes them, or that nobody has looked at, there is none.
"""

import math
from collections.abc import Callable, Sequence

from odtc.core.ir.place import Place
from odtc.frontend.operators.images.padding import amounts_of
from odtc.frontend.operators.operator import Node
from odtc.frontend.operators.reduction import reduced_axes
from odtc.frontend.operators.slicing import spans

# Of each input; None where it is the same for all samples.
Places = Sequence[Place | None]
# Where samples lie in the outputs: one place for all of them, or one of each. None where a sample
# may not be computed alone. At least one input holds samples.
Rule = Callable[[Node, Places], Place | Sequence[Place] | None]


def _only(places: Places) -> Place | None:
    """The place that all inputs with samples have; None where they differ."""
    found = {place for place in places if place is not None}
    return found.pop() if len(found) == 1 else None


def _first(places: Places) -> Place | None:
    """That of the first input, where no other one holds samples."""
    return places[0] if not any(places[1:]) else None


def _pointwise(node: Node, places: Places) -> Place | None:
    """Shapes are aligned at their ends."""
    rank = len(node.output_shape() or ())
    return _only(
        [
            place and place.at(place.axis + rank - node.rank(slot))
            for slot, place in enumerate(places)
        ]
    )


def _rows(node: Node, places: Places) -> Place | None:
    """Windows and channels: what has another index in the first dimension takes no part.

    Other outputs than the first may say where elements lie in the whole tensor.
    """
    place, others = _first(places), range(1, len(node.proto.output))
    alone = place and place.axis == 0 and not any(map(node.is_read, others))
    return place if alone else None


def _by_element(node: Node, places: Places) -> Place | None:
    """Reading and writing along one axis, by indices that lie beside the elements."""
    return _along(0)(node, places) if all(places) else None


def _along(default: int, slot: int | None = None) -> Callable[[Node, Places], Place | None]:
    """All but the elements along one axis are computed alone.

    Args:
        default: the axis, where none is given.
        slot: of the input that holds it; None where it is an attribute.
    """

    def rule(node: Node, places: Places) -> Place | None:
        given = node.attrs.get("axis", default) if slot is None else node.number("axis", slot)
        place = _only(places)
        if place is None or given is None or int(given) % node.rank() == place.axis:
            return None
        return place

    return rule


def _found(node: Node, places: Places) -> Place | None:
    """The number of an element along an axis, which goes if it is not kept."""
    axis = node.attrs.get("axis", 0) % node.rank()
    return _without(_first(places), [axis], keepdims=bool(node.attrs.get("keepdims", 1)))


def _reduced(node: Node, places: Places) -> Place | None:
    keepdims = bool(node.attrs.get("keepdims", 1))
    return _without(_first(places), reduced_axes(node), keepdims=keepdims)


def _without(place: Place | None, axes: Sequence[int], *, keepdims: bool) -> Place | None:
    if place is None or place.axis in axes:
        return None
    return place if keepdims else place.at(place.axis - sum(axis < place.axis for axis in axes))


def _behind(node: Node, places: Places) -> Place | None:
    """A normalisation over all dimensions from an axis on."""
    place, first = _first(places), node.attrs.get("axis", -1) % node.rank()
    return place if place and place.axis < first else None


def _transposed(node: Node, places: Places) -> Place | None:
    place = _first(places)
    order = node.attrs.get("perm") or list(range(node.rank()))[::-1]
    return place and place.at(order.index(place.axis))


def _reshaped(node: Node, places: Places) -> Place | None:
    """The elements before a sample and those after it stay there."""
    place, shape, new = _first(places), node.shape(), node.output_shape()
    if place is None or new is None:
        return None
    before = math.prod(shape[: place.axis]) * place.outer
    behind = place.inner * math.prod(shape[place.axis + 1 :])
    for axis in range(len(new)):
        first, last = math.prod(new[:axis]), math.prod(new[axis + 1 :])
        if before % first == 0 and behind % last == 0:
            return Place(axis, before // first, behind // last)
    return None


def _gathered(node: Node, places: Places) -> Place | None:
    data, indices = places
    axis = node.attrs.get("axis", 0) % node.rank()
    if data is None and indices is not None:
        return indices.at(axis + indices.axis)
    if data is None or indices is not None or data.axis == axis:
        return None
    return data if data.axis < axis else data.at(data.axis + node.rank(1) - 1)


def _gathered_nd(node: Node, places: Places) -> Place | None:
    """Of batch dimensions, each has indices of its own; or indices with samples read one table."""
    data, indices = places
    if indices is None or indices.axis == node.rank(1) - 1:
        return None
    if data is None:
        return None if indices.axis < node.attrs.get("batch_dims", 0) else indices
    return data if data == indices and data.axis < node.attrs.get("batch_dims", 0) else None


def _product(node: Node, places: Places) -> Place | None:
    """A matrix product; where both operands hold samples, each has matrices of its own."""
    ranks = node.rank(0), node.rank(1)
    if min(ranks) < 2:
        return None
    summed = ranks[0] - 1, ranks[1] - 2
    if any(place and place.axis == axis for place, axis in zip(places, summed, strict=True)):
        return None
    in_matrix = [p and p.axis >= rank - 2 for p, rank in zip(places, ranks, strict=True)]
    if all(places) and any(in_matrix):
        return None
    return _only(
        [p and p.at(p.axis + max(ranks) - rank) for p, rank in zip(places, ranks, strict=True)]
    )


def _sliced(node: Node, places: Places) -> Place | None:
    place = _first(places)
    return place if place and place.axis not in [span.axis for span in spans(node)] else None


def _resized(node: Node, places: Places) -> Place | None:
    """Where an axis keeps its size, nothing is taken from neighbours along it."""
    place, new = _first(places), node.output_shape()
    crops = node.attrs.get("coordinate_transformation_mode") == "tf_crop_and_resize"
    if place is None or new is None or crops or new[place.axis] != node.shape()[place.axis]:
        return None
    return place


def _padded(node: Node, places: Places) -> Place | None:
    place = _first(places)
    return place if place and not any(amounts_of(node)[place.axis]) else None


_STATES = (5, 6)
_LENGTHS = 4


def _recurrent(node: Node, places: Places) -> tuple[Place, Place, Place] | None:
    """Inputs are `[steps, batch, width]`, states `[1, batch, width]`, lengths `[batch]`.

    One state may serve all samples.
    """
    expected = {0: 1, _LENGTHS: 0, **dict.fromkeys(_STATES, 1)}
    held = {slot: place for slot, place in enumerate(places) if place}
    needed = [0, *(slot for slot in (_LENGTHS, *_STATES) if node.has(slot))]
    served = [slot for slot in _STATES if node.has(slot) and node.shape(slot)[1] == 1]
    if any(held[slot].axis != expected.get(slot) for slot in held):
        return None
    if any(slot not in held and slot not in served for slot in needed):
        return None
    place = _only([place.at(1) for place in held.values()])
    return place and (place.at(2), place, place)


_POINTWISE = (
    *("Abs Acos Acosh Add And Asin Asinh Atan Atanh BitShift BitwiseAnd BitwiseNot".split()),
    *("BitwiseOr BitwiseXor Cast Ceil Celu Clip Cos Cosh Div Dropout Elu Equal Erf Exp".split()),
    *("Expand Floor Gelu Greater GreaterOrEqual HardSigmoid HardSwish IsInf IsNaN".split()),
    *("LeakyRelu Less LessOrEqual Log Max Min Mish Mod Mul Neg Not Or PRelu Pow".split()),
    *("Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh Softplus Softsign Sqrt".split()),
    *("Sub Swish Tan Tanh ThresholdedRelu Where Xor".split()),
)
_REDUCTIONS = (
    *("ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin".split()),
    *("ReduceProd ReduceSum ReduceSumSquare".split()),
)
_WINDOWS = (
    *("AveragePool BatchNormalization Conv ConvTranspose GroupNormalization".split()),
    *("InstanceNormalization LRN MaxPool".split()),
)

RULES: dict[str, Rule] = {
    **dict.fromkeys(_POINTWISE, _pointwise),
    **dict.fromkeys(_REDUCTIONS, _reduced),
    **dict.fromkeys(_WINDOWS, _rows),
    **dict.fromkeys(("ArgMax", "ArgMin"), _found),
    **dict.fromkeys(("GRU", "LSTM", "RNN"), _recurrent),
    **dict.fromkeys(("Hardmax", "LogSoftmax", "Softmax", "TopK"), _along(-1)),
    **dict.fromkeys(("LayerNormalization", "RMSNormalization"), _behind),
    **dict.fromkeys(("GatherElements", "ScatterElements"), _by_element),
    **dict.fromkeys(("Resize", "Upsample"), _resized),
    "Concat": _along(1),
    "CumSum": _along(0, slot=1),
    "Gather": _gathered,
    "GatherND": _gathered_nd,
    "MatMul": _product,
    "Pad": _padded,
    "Reshape": _reshaped,
    "Slice": _sliced,
    "Split": _along(0),
    "Transpose": _transposed,
}
