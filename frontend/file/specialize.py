"""Turns a loaded ONNX model into a `Graph` of static shapes: batch and other symbols are bound."""

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping

import numpy as np
import onnx

from odtc.core.errors import ModelError, UnsupportedError
from odtc.core.ir.place import Place
from odtc.core.onnx_model.new_head import read_new_head
from odtc.core.onnx_model.running_variance import is_unbiased
from odtc.core.onnx_model.weight_places import FLOATS, float_tensors
from odtc.frontend.feeds import Axes, InputOptions, Shapes, feeds_of, hypotheses
from odtc.frontend.file.bind_inputs import bind, check_batch_axes
from odtc.frontend.file.lift import Lifted, lift
from odtc.frontend.file.onnx_file import modern, opset_of
from odtc.frontend.graph import MAIN_DOMAINS, Graph, attributes, copy_of, numpy_dtype
from odtc.frontend.normalize.classical import lower_classical
from odtc.frontend.normalize.constants import fold_and_infer, fold_constants
from odtc.frontend.normalize.contrib import lower_contrib
from odtc.frontend.normalize.control.branches import select_branches
from odtc.frontend.normalize.drop_casts import drop_casts
from odtc.frontend.normalize.resolve import resolve
from odtc.frontend.normalize.unpack import unpack
from odtc.frontend.normalize.widen import widen, widen_bfloat16
from odtc.frontend.trained.set_aside import foreign_operator, set_aside
from odtc.frontend.weights.classify import classify
from odtc.frontend.weights.elements import values_of
from odtc.frontend.weights.evidence.uses import flattened
from odtc.frontend.weights.exporters.losses import losses_of, undone
from odtc.frontend.weights.finding import Kind
from odtc.frontend.weights.notes import listed, notes_of

_KEPT = (Kind.PARAMETER, Kind.FROZEN)
_FLOATS = frozenset(map(numpy_dtype, FLOATS))
_INTEGERS = frozenset({"int8", "uint8", "int4", "uint4", "int2", "uint2"})


def specialize(
    model: onnx.ModelProto,
    batch: int | None = None,
    shape: Shapes | None = None,
    promoted: Collection[str] = (),
    *,
    asked: InputOptions | None = None,
    axes: Axes | None = None,
    samples: int | None = None,
    read: Graph | None = None,
) -> Graph:
    """Binds the batch and all other symbolic dimensions.

    A model that was exported with a fixed batch is re-batched: reshapes to it follow their input.

    Args:
        model: a checked ONNX model.
        batch: samples in a step; may be left out where the model has a fixed batch.
        shape: sizes of the other symbolic dimensions, by name, or of all of an input's.
        promoted: names of tensors to train whatever they are; other text in it is left alone.
        asked: batch, shape and what else a user says of the inputs, in place of those two.
        axes: of the inputs, along which the samples lie; the likeliest if None.
        samples: of a batch, whatever the user says.
        read: what `read_graph` made of the model in its modern form; it stays as it is, and the
            result shares its arrays.

    Raises:
        UsageError: a symbolic dimension is not given, or the batch is not in [1, 2**20].
        ModelError: the model has no input, or cannot be re-batched.
        UnsupportedError: all outputs need operators outside ONNX's default set.
    """
    model = modern(model)
    graph = copy_of(read_graph(model, promoted) if read is None else read)
    lower_classical(graph)
    lower_contrib(graph)
    set_aside(graph)
    asked = asked or InputOptions(batch, shape or {})
    feeds = feeds_of(model)
    outputs = [value.name for value in model.graph.output]
    check_batch_axes(asked.batch_axes, [*(feed.name for feed in feeds), *outputs])
    bound = bind(feeds, asked, next(hypotheses(feeds, asked)) if axes is None else axes, samples)
    graph.inputs, graph.places = bound.specs, bound.places
    _set_inputs(graph, bound.constants)
    unpack(graph)
    is_widened = widen_bfloat16(graph)
    fold_constants(graph)
    # Of a constant If, inference would join the branch that is not taken.
    while resolve(graph):
        fold_constants(graph)
    if bound.exported is not None:
        _follow_batch(graph, bound.exported)
    _settle(graph)
    while select_branches(graph):
        _settle(graph)
    if widen(graph) or is_widened:
        drop_casts(graph)
        fold_and_infer(graph)
    return graph


def _settle(graph: Graph) -> None:
    """Folds, infers and resolves, until nothing changes."""
    fold_and_infer(graph)
    while resolve(graph):
        fold_and_infer(graph)


def _set_inputs(graph: Graph, values: Mapping[str, np.ndarray]) -> None:
    """Makes constants of inputs whose values are given."""
    graph.constants |= values
    for name, value in values.items():
        graph.bound[name] = value.tolist()
        graph.notes.append(
            f"{name}: an input that is set to {_brief(value)}; the exported model has it as before"
        )


def _brief(value: np.ndarray) -> str:
    values = np.unique(value)
    return str(values[0]) if values.size == 1 else np.array2string(value, threshold=8)


def read_graph(
    model: onnx.ModelProto, promoted: Collection[str] = (), *, bakes_constants: bool = False
) -> Graph:
    """The graph of a model, its inputs aside: what is a parameter, and what a constant.

    Args:
        model: in its modern form.
        promoted: names of float tensors that are weights whatever they look like.
        bakes_constants: whether the tensors of Constant nodes are no weights, whatever they hold.

    Raises:
        ModelError: the data of an initializer is damaged.
    """
    lifted = lift(model.graph)
    values = values_of(lifted.tensors)
    with np.errstate(over="ignore"):
        floats = {
            name: value.astype(np.float32, copy=False)
            for name, value in values.items()
            if value.dtype.name in _FLOATS
        }
    findings = classify(
        *(model, lifted.nodes, floats),
        integers=values.keys() - floats.keys(),
        written=lifted.written,
        promoted=promoted,
    )
    kept = _statistics(lifted.nodes) & floats.keys()
    kept |= {name for name, found in findings.items() if found.kind in _KEPT}
    kept -= lifted.written if bakes_constants else set()
    graph = Graph(
        nodes=lifted.nodes,
        inputs=(),
        parameters={name: value for name, value in values.items() if name in kept},
        constants={name: value for name, value in values.items() if name not in kept},
        outputs=[value.name for value in model.graph.output],
        opset=opset_of(model),
        findings=findings,
        unbiased=is_unbiased(model),
        new_head=tuple(name for name in read_new_head(model) if name in kept),
    )
    for value in model.graph.output:
        if value.type.tensor_type.elem_type:
            graph.dtypes[value.name] = numpy_dtype(value.type.tensor_type.elem_type)
    quantized = _quantized(values)
    if quantized:
        graph.leave_untrained(
            f"{listed(quantized)}: frozen, not trained: their elements are integers of 8 bits or "
            "fewer; --lora trains adapters in addition to those that are dequantized; or train the "
            "model that this one was quantized from, and quantize that again"
        )
    graph.lost |= dict(losses_of(model, findings))
    graph.notes += [
        *_said_of_constants(lifted, kept),
        *undone(model),
        *graph.lost,
        *notes_of(findings),
    ]
    return graph


def _said_of_constants(lifted: Lifted, kept: Collection[str]) -> Iterator[str]:
    """Notes for the user on Constant nodes that may be weights."""
    written = [name for name in lifted.tensors if name in lifted.written and name in kept]
    if written:
        yield f"Constant nodes hold weights, which are parameters: {listed(written)}"
    sparse = [
        node.output[0]
        for node in flattened(lifted.nodes)
        if any(item.name == "sparse_value" for item in node.attribute)
    ]
    if sparse:
        yield f"{listed(sparse)}: not trained: Constant nodes hold them as sparse tensors"


def _quantized(values: Mapping[str, np.ndarray]) -> list[str]:
    """Tables of small integers: a vector may be a zero point, or an attribute as a tensor."""
    return [
        name
        for name, value in values.items()
        if value.ndim > 1 and value.dtype.itemsize == 1 and value.dtype.name in _INTEGERS
    ]


def _statistics(nodes: Iterable[onnx.NodeProto]) -> set[str]:
    """Names of running means and variances."""
    norms = [node for node in flattened(nodes) if node.op_type == "BatchNormalization"]
    return {name for node in norms for name in node.input[3:5]}


def require_places(graph: Graph, model: onnx.ModelProto) -> None:
    """Checks that each parameter has a place in the file to be written back to.

    Args:
        graph: of the model.
        model: as it was read.

    Raises:
        UnsupportedError: one has none: it came up as ONNX resolved functions or old operators.
    """
    places = {name for name, _ in float_tensors(model.graph)}
    lost = [name for name in graph.parameters if name not in places]
    if lost:
        raise UnsupportedError(
            f"{len(lost)} parameters have no place in the file to be written back to",
            where=f"initializer {lost[0]}",
            hint="export the model without functions, for a newer opset; or do not name it in "
            "train",
        )


def check_domains(model: onnx.ModelProto) -> None:
    """Checks that all operators are of ONNX's default set.

    Raises:
        UnsupportedError: one is not.
    """
    for node in model.graph.node:
        if node.domain not in MAIN_DOMAINS:
            raise foreign_operator(node)


def _follow_batch(graph: Graph, exported: int) -> None:
    """Lets reshapes of whole batches copy the batch from their input, where they name it.

    Args:
        graph: its inputs of the sizes that are wanted.
        exported: the batch of the file.
    """
    named = [node for node in graph.nodes if _starts_with(graph, node, exported)]
    shapes = _exported_shapes(graph, exported) if named else {}
    for node in named:
        if shapes.get(node.input[0], (0,))[0] != exported:
            continue
        sizes = graph.constants[node.input[1]].copy()
        # With allowzero, which PyTorch's exporter writes, a zero is a size.
        copied = -1 if attributes(node).get("allowzero") else 0
        if copied == 0 or -1 not in sizes:
            sizes[0] = copied
            node.input[1] = graph.add_constant("reshape", sizes)


def _starts_with(graph: Graph, node: onnx.NodeProto, size: int) -> bool:
    """Whether a node is a Reshape to a constant shape that begins with a size."""
    target = graph.constants.get(node.input[1]) if node.op_type == "Reshape" else None
    return target is not None and target.size > 1 and target[0] == size


def _exported_shapes(graph: Graph, exported: int) -> Mapping[str, tuple[int, ...]]:
    """Shapes of the file as it was exported; what merely has the batch's size is told by them."""
    probe = copy_of(graph)
    probe.inputs = tuple(
        dataclasses.replace(spec, shape=_with_size(spec.shape, graph.places[spec.name], exported))
        if spec.name in graph.places
        else spec
        for spec in graph.inputs
    )
    try:
        fold_and_infer(probe)
    except ModelError:
        return {}
    return {name: shape for name, shape in probe.shapes.items() if shape}


def _with_size(shape: tuple[int, ...], place: Place, size: int) -> tuple[int, ...]:
    return (*shape[: place.axis], size, *shape[place.axis + 1 :])
