"""Which labels a loss inside of the model reads: whether any of a batch counts is seen from these.

Nodes of losses are followed back from the loss to what is fed, through operators that only move
values. Models of transformers cut their labels so: `labels[:, 1:]`, or a row of ignored ones is put
behind, and the first place left out.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import onnx

from odtc.core.counted import Counted
from odtc.core.specs import Classes
from odtc.frontend.graph import Graph, attributes, describe_node

_LOSSES = frozenset({"NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"})
# They have no value but for those of their first input, or of all, where all others are constant.
_ONE = frozenset(
    "Cast Div Flatten Identity Neg ReduceMean ReduceSum Reshape Squeeze Unsqueeze".split()
)
_ALL = frozenset({"Add", "Mul", "Sum"})
_RESHAPED = frozenset({"Cast", "Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"})
# The place of a value that is not of what is fed.
_OUTSIDE = -1
# Further out than any axis: how exporters say "to the end".
_FAR = 2**31


def find_counted(graph: Graph, loss: str) -> tuple[Counted, ...]:
    """What a loss reads of labels that may be ignored; a note where nothing shows it.

    Args:
        graph: not yet normalised, its shapes and constants known.
        loss: name of the tensor.

    Returns:
        What each node of a loss reads: none counts where all of these are ignored. Empty where
        something else makes up the loss, too, where a label cannot be ignored, or nothing shows
        what is read.
    """
    made_by = {name: node for node in graph.nodes for name in node.output}
    nodes = list(_parts(graph, loss, made_by))
    ignored = [attributes(node).get("ignore_index") for node in nodes if node is not None]
    if not nodes or len(ignored) < len(nodes) or None in ignored:
        return ()
    found = []
    for node in filter(None, nodes):
        each = _read_by(graph, node, made_by)
        if each is None:
            graph.notes.append(
                f"{describe_node(node)}: the labels that it reads are neither an input nor a block "
                "of one, so that nothing shows whether any label of a batch counts: one without "
                "counts in means over steps as any other, with a loss of 0"
            )
            return ()
        found.append(each)
    return tuple(dict.fromkeys(found))


def _parts(
    graph: Graph, name: str, made_by: Mapping[str, onnx.NodeProto]
) -> Iterator[onnx.NodeProto | None]:
    """Nodes of losses that a tensor is made up of; None for what is something else."""
    node = made_by.get(name)
    if name in graph.constants:
        return
    if node is None:
        yield None
    elif node.op_type in _LOSSES:
        yield node if name == node.output[0] else None
    elif node.op_type in _ONE:
        yield from _parts(graph, node.input[0], made_by)
    elif node.op_type in _ALL:
        for each in node.input:
            yield from _parts(graph, each, made_by)
    else:
        yield None


def _read_by(
    graph: Graph, node: onnx.NodeProto, made_by: Mapping[str, onnx.NodeProto]
) -> Counted | None:
    """What a node of a loss reads; None where it is no box of what is fed."""
    path, name = [], node.input[1]
    fed = {spec.name: spec for spec in (*graph.inputs, *graph.labels)}
    while name not in fed:
        maker = made_by.get(name)
        if maker is None or maker.op_type not in _MOVES:
            return None
        path.append(maker)
        name = maker.input[0]
    shape, ignored = graph.shapes[node.input[0]], attributes(node)["ignore_index"]
    # int32 holds the place of any element, of which there are fewer than 2**31.
    places = np.arange(fed[name].size, dtype=np.int32).reshape(fed[name].shape)
    for maker in reversed(path):
        moved = _MOVES[maker.op_type](graph, maker, places, ignored)
        if moved is None:
            return None
        places = moved
    cut = _box(places, fed[name].shape)
    return None if cut is None else Counted(name, Classes(shape[1], 1, ignored), cut)


def _box(places: np.ndarray, shape: Sequence[int]) -> tuple[tuple[int, int, int], ...] | None:
    """What is left out of each axis, so that these places are left; None where that is no box."""
    read = np.unique(places[places != _OUTSIDE])
    if not read.size:
        return None
    axes = [np.unique(each) for each in np.unravel_index(read, tuple(shape))]
    ranges = [(int(each[0]), int(each[-1]) + 1) for each in axes]
    if math.prod(stop - start for start, stop in ranges) != read.size:
        return None
    cuts = zip(ranges, shape, strict=True)
    return tuple(
        (axis, start, size - stop)
        for axis, ((start, stop), size) in enumerate(cuts)
        if (start, stop) != (0, size)
    )


_Moved = np.ndarray | None


def _reshaped(graph: Graph, node: onnx.NodeProto, places: np.ndarray, _: int) -> _Moved:
    shape = graph.shapes.get(node.output[0])
    return None if shape is None else places.reshape(shape)


def _transposed(_: Graph, node: onnx.NodeProto, places: np.ndarray, __: int) -> _Moved:
    return np.transpose(places, attributes(node).get("perm"))


def _sliced(graph: Graph, node: onnx.NodeProto, places: np.ndarray, _: int) -> _Moved:
    starts, ends = (_numbers(graph, node, key, n) for key, n in (("starts", 1), ("ends", 2)))
    if starts is None or ends is None:
        return None
    axes = _numbers(graph, node, "axes", 3)
    steps = _numbers(graph, node, "steps", 4) or [1] * len(starts)
    if (axes is None and _left(node, 3)) or min(steps) < 1:
        return None
    ranges = [slice(None)] * places.ndim
    for axis, start, end, step in zip(
        range(len(starts)) if axes is None else axes, starts, ends, steps, strict=True
    ):
        ranges[axis] = slice(start, None if end > _FAR else end, step)
    return places[tuple(ranges)]


def _padded(graph: Graph, node: onnx.NodeProto, places: np.ndarray, ignored: int) -> _Moved:
    """What is put around counts for nothing where it is ignored."""
    pads, attrs = _numbers(graph, node, "pads", 1), attributes(node)
    value = _numbers(graph, node, "value", 2) if _left(node, 2) or "value" in attrs else [0]
    if pads is None or value is None or attrs.get("mode", "constant") != "constant":
        return None
    if _left(node, 3) or len(pads) != 2 * places.ndim or (any(pads) and value != [ignored]):
        return None
    sides = list(zip(pads[: places.ndim], pads[places.ndim :], strict=True))
    places = np.pad(places, [(max(a, 0), max(b, 0)) for a, b in sides], constant_values=_OUTSIDE)
    kept = zip(sides, places.shape, strict=True)
    return places[tuple(slice(max(-a, 0), size - max(-b, 0)) for (a, b), size in kept)]


def _left(node: onnx.NodeProto, slot: int) -> bool:
    """Whether a node has an input that may be left out."""
    return slot < len(node.input) and bool(node.input[slot])


def _numbers(graph: Graph, node: onnx.NodeProto, key: str, slot: int) -> list[int] | None:
    """Integers of an attribute, or of a constant input; None where there is none."""
    attrs = attributes(node)
    if key in attrs:
        return [int(each) for each in np.ravel(attrs[key])]
    value = graph.constants.get(node.input[slot]) if _left(node, slot) else None
    return None if value is None else [int(each) for each in np.ravel(value)]


_MOVES: dict[str, Callable[[Graph, onnx.NodeProto, np.ndarray, int], _Moved]] = {
    **dict.fromkeys(_RESHAPED, _reshaped),
    "Pad": _padded,
    "Slice": _sliced,
    "Transpose": _transposed,
}
