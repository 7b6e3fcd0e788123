"""Lifts Constant nodes and evaluates what depends on constants and static shapes only.

Exporters write arithmetic on shapes, masks and positions into the graph. Folding one node may give
inference the shape that the next one waits for, so both go on in turn.
"""

import math
from collections.abc import Hashable, Mapping

import numpy as np
import onnx
from onnx import helper

from odtc.core.disk.file_limits import MOST_FOLDED_BYTES
from odtc.core.errors import ModelError
from odtc.frontend.graph import Graph, attributes, describe_node
from odtc.frontend.normalize.control.ranges import require_countable
from odtc.frontend.normalize.widen import widen_attributes

# A causal mask of 1024 positions; anything larger is left to the compiler.
MAX_ELEMENTS = 1 << 20
# Quantised weights of so many elements stay integers: as floats they take four times the bytes.
MIN_QUANTISED = 4096
# The largest tensor of what counts the trips of a loop.
MAX_COUNTERS = 64
# Their output is at most as large as the product of their inputs' sizes.
BOUNDED = frozenset(
    "Abs Add And Cast CastLike Ceil Concat CumSum Div Equal Floor Gather GatherElements GatherND "
    "Greater GreaterOrEqual Identity IsInf IsNaN Less LessOrEqual Max Min Mod Mul Neg "
    "NonMaxSuppression NonZero Not Or Pow Reciprocal ReduceMax ReduceMin ReduceProd ReduceSum "
    "Reshape Round ScatterElements ScatterND Sign Slice Split Sqrt Squeeze Sub Sum "
    "Transpose Trilu Unique Unsqueeze Where Xor".split()
)
# A few numbers can make these as large as they like.
EXPANDING = frozenset(
    "BlackmanWindow ConstantOfShape Expand EyeLike HammingWindow HannWindow MelWeightMatrix OneHot "
    "Pad Range Tile".split()
)
_FOLDED = BOUNDED | EXPANDING
_CASTS = frozenset({"Cast", "CastLike"})
# Types of what rounding to float16 may have changed.
_ROUNDED = frozenset({"float16", "float32"})
_FLOATS = (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.DOUBLE)
# Without an element where the window is larger than the image: that is a mistake, which is told.
_WINDOWED = frozenset("AveragePool Conv ConvTranspose LpPool MaxPool".split())


Values = dict[str, np.ndarray]

# What nodes made, in the order of their outputs: in each block of a network, and in each draft of
# it, most are written like others.
_MADE: dict[Hashable, tuple[np.ndarray, ...]] = {}
# Of these the bytes of a node and of what it reads, at most; and how many there are, at most.
_ALIKE_BYTES, _MOST_MADE = 1 << 10, 1 << 12


def fold_and_infer(graph: Graph) -> None:
    """Folds constants and infers shapes, until neither finds anything new.

    Raises:
        ModelError: the shapes do not fit together.
    """
    fold_constants(graph)
    # Sizes are checked before inference holds each element of any list.
    _settle(graph, follows=False)
    if any(name and name not in graph.shapes for node in graph.nodes for name in node.output):
        _settle(graph, follows=True)


def _settle(graph: Graph, *, follows: bool) -> None:
    graph.infer_shapes(follows=follows)
    while fold_constants(graph):
        graph.infer_shapes(follows=follows)


def fold_constants(graph: Graph) -> bool:
    """Replaces Constant, Shape and shape arithmetic by their values; tells if there was any.

    Raises:
        ModelError: all of them together are too large.
    """
    kept = []
    for node in graph.nodes:
        values = _values(graph, node)
        if values is None:
            kept.append(node)
        for name, value in (values or {}).items():
            graph.folded_bytes += value.nbytes
            graph.constants[name] = value
            graph.shapes[name] = value.shape
            graph.dtypes[name] = value.dtype.name
        graph.unrounded |= _unrounded(graph, node, values or {})
        if graph.folded_bytes > MOST_FOLDED_BYTES:
            raise ModelError(
                f"the constants that the graph computes have {graph.folded_bytes} bytes so far; "
                f"odtc takes at most {MOST_FOLDED_BYTES}",
                where=f"node {describe_node(node)}",
                hint="give a smaller batch or shorter sequences, or store them as initializers",
            )
    found = len(kept) < len(graph.nodes)
    graph.nodes = kept
    return found


def _values(graph: Graph, node: onnx.NodeProto) -> dict[str, np.ndarray] | None:
    """The outputs of a node that can be evaluated now."""
    if node.op_type == "Range":
        require_countable(graph, node)
    nothing = _without_elements(graph, node)
    if nothing is not None:
        return nothing
    if node.op_type == "Constant":
        return _evaluate(graph, node, {})
    if node.op_type in ("Shape", "Size"):
        shape = _shape(graph, node.input[0])
        return None if shape is None else {node.output[0]: _measure(node, shape)}
    if node.op_type != "CastLike" and _reads_data(graph, node):
        return None
    return _folded(graph, node)


def _folded(graph: Graph, node: onnx.NodeProto) -> dict[str, np.ndarray] | None:
    """The outputs of a node that computes them from constants and dtypes."""
    feeds = {name: _known(graph, name) for name in node.input if name}
    reads_nothing = any(value is not None and not value.size for value in feeds.values())
    if node.op_type not in _FOLDED and not reads_nothing:
        return None
    if node.op_type == "CastLike" and node.input[1] in graph.dtypes:
        # Only the dtype of the second input counts, and that is known once it is inferred.
        feeds[node.input[1]] = np.zeros((), graph.dtypes[node.input[1]])
    known = {name: value for name, value in feeds.items() if value is not None}
    if len(known) < len(feeds) or not _is_small(graph, node, known) or _widens(node, known):
        return None
    return _evaluate(graph, node, known)


def _widens(node: onnx.NodeProto, feeds: Values) -> bool:
    """Whether a node makes floats of many integers of 8 bits, as weights are quantised to."""
    if node.op_type != "Cast" or attributes(node)["to"] not in _FLOATS:
        return False
    return is_quantised(feeds[node.input[0]])


def is_quantised(value: np.ndarray) -> bool:
    """Whether an array is so many integers of 8 bits that it stays as it is."""
    return value.dtype in (np.int8, np.uint8) and value.size >= MIN_QUANTISED


def _reads_data(graph: Graph, node: onnx.NodeProto) -> bool:
    """Whether it reads what is no constant and has elements, as most nodes do."""
    constants, shapes = graph.constants, graph.shapes
    for name in node.input:
        if name and name not in constants and 0 not in shapes.get(name, ()):
            return True
    return False


def _unrounded(graph: Graph, node: onnx.NodeProto, values: Values) -> Values:
    """Floats that a node computes of constants, as float32 where a float16 model rounds them.

    Exporters cast a float32 scale to the type of the model. What is no finite float16 stays as it
    is: an infinite one hides in a mask.
    """
    floats = {name: value for name, value in values.items() if value.dtype.name in _ROUNDED}
    feeds = {name: _known(graph, name) for name in node.input if name}
    follows = not graph.unrounded.keys().isdisjoint(feeds)
    if not floats or not (follows or _rounds(graph, node, feeds, floats)):
        return {}
    held = {name: value for name, value in feeds.items() if value is not None}
    wide = onnx.NodeProto()
    wide.CopyFrom(node)
    widen_attributes(wide, {onnx.TensorProto.FLOAT16})
    if node.op_type == "CastLike":
        held[node.input[1]] = np.zeros((), floats[node.output[0]].dtype)
    held |= {name: graph.unrounded[name] for name in graph.unrounded.keys() & held.keys()}
    for name, value in held.items():
        held[name] = value.astype(np.float32) if value.dtype == np.float16 else value
    found = _evaluate(graph, wide, held) or {}
    return {
        name: np.where(np.isfinite(value), found[name], value).astype(np.float32)
        for name, value in floats.items()
        if name in found
    }


def _rounds(
    graph: Graph, node: onnx.NodeProto, feeds: Mapping[str, np.ndarray | None], made: Values
) -> bool:
    """Whether a node casts to float16 what is none, in a model with weights in float16."""
    source = feeds[node.input[0]] if node.op_type in _CASTS else None
    return (
        source is not None
        and source.dtype != np.float16
        and made[node.output[0]].dtype == np.float16
        and any(value.dtype == np.float16 for value in graph.parameters.values())
    )


def _shape(graph: Graph, name: str) -> tuple[int, ...] | None:
    """Shape of a tensor: of what the file holds it is known before any inference."""
    held = graph.parameters.get(name, graph.constants.get(name))
    return graph.shapes.get(name) if held is None else held.shape


def _without_elements(graph: Graph, node: onnx.NodeProto) -> dict[str, np.ndarray] | None:
    """The outputs of a node none of which has an element: whatever it computes, they are known."""
    names = [name for name in node.output if name]
    if node.op_type in _WINDOWED and _reads_data(graph, node):
        return None
    for name in names:
        if 0 not in graph.shapes.get(name, ()) or name not in graph.dtypes:
            return None
    return {name: np.zeros(graph.shapes[name], graph.dtypes[name]) for name in names}


def _known(graph: Graph, name: str) -> np.ndarray | None:
    """The value of a tensor: a constant, or one without elements."""
    shape = graph.shapes.get(name, ())
    if name not in graph.constants and 0 in shape and name in graph.dtypes:
        return np.zeros(shape, graph.dtypes[name])
    return graph.constants.get(name)


def evaluate_small(graph: Graph, node: onnx.NodeProto, values: Values) -> Values | None:
    """The outputs of a node of a body, where all that it reads is known and small."""
    if node.op_type != "Constant" and node.op_type not in BOUNDED:
        return None
    names = [name for name in node.input if name]
    if any(name not in values or values[name].size > MAX_COUNTERS for name in names):
        return None
    return _evaluate(graph, node, {name: values[name] for name in names})


def _measure(node: onnx.NodeProto, shape: tuple[int, ...]) -> np.ndarray:
    """Value of a Shape, whole or a part of it, or of a Size."""
    if node.op_type == "Size":
        return np.array(math.prod(shape), np.int64)
    limits = {item.name: item.i for item in node.attribute}
    return np.array(shape[limits.get("start", 0) : limits.get("end", len(shape))], np.int64)


def _is_small(graph: Graph, node: onnx.NodeProto, feeds: dict[str, np.ndarray]) -> bool:
    """Whether the node's values are few: by their shapes, else by its inputs."""
    shapes = [graph.shapes.get(name) for name in node.output if name]
    if all(shape is not None for shape in shapes):
        return sum(math.prod(shape or ()) for shape in shapes) <= MAX_ELEMENTS
    return node.op_type in BOUNDED and math.prod(v.size for v in feeds.values()) <= MAX_ELEMENTS


def _evaluate(graph: Graph, node: onnx.NodeProto, feeds: Values) -> Values | None:
    """The outputs of one node by ONNX's reference implementation; None where that refuses it."""
    likeness = _likeness(graph.opset, node, feeds)
    known = _MADE.get(likeness)
    if known is not None:
        return dict(zip(filter(None, node.output), known, strict=True))
    found = _run(graph, node, feeds)
    if found is None or likeness is None:
        return found
    if sum(each.nbytes for each in found.values()) <= _ALIKE_BYTES:
        for each in found.values():
            # Many tensors will be this array.
            each.flags.writeable = False
        if len(_MADE) >= _MOST_MADE:
            _MADE.clear()
        _MADE[likeness] = tuple(found.values())
    return found


def _likeness(opset: int, node: onnx.NodeProto, feeds: Values) -> Hashable:
    """Describes a node and what it reads, but for names; None where the description is long."""
    size = node.ByteSize() + sum(each.nbytes for each in feeds.values())
    if size > _ALIKE_BYTES or any(each.dtype == object for each in feeds.values()):
        return None
    numbers = {name: number for number, name in enumerate(feeds)}
    return (
        (node.op_type, node.domain, opset),
        tuple(each.SerializeToString(deterministic=True) for each in node.attribute),
        tuple(numbers.get(name) for name in node.input),
        tuple(map(bool, node.output)),
        tuple((each.dtype, each.shape, each.tobytes()) for each in feeds.values()),
    )


def _run(graph: Graph, node: onnx.NodeProto, feeds: Values) -> Values | None:
    """Runs one node; see `_evaluate`."""
    # Tens of megabytes, for models that have something to fold.
    from onnx.reference import ReferenceEvaluator

    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), None)
        for name, value in feeds.items()
    ]
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
    model = helper.make_model(
        helper.make_graph([node], "fold", inputs, outputs),
        opset_imports=[helper.make_opsetid("", graph.opset)],
    )
    names = [value.name for value in outputs]
    try:
        with np.errstate(all="ignore"):
            results = ReferenceEvaluator(model).run(names, feeds)
    except Exception:  # whatever is wrong with the node, the importer names it
        return None
    arrays = {name: np.asarray(value) for name, value in zip(names, results, strict=True)}
    return None if any(value.dtype == object for value in arrays.values()) else arrays
