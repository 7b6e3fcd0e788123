"""Turns a loaded ONNX model into a `Graph` of static shapes: batch and other symbols are bound."""

from collections.abc import Collection, Iterable, Mapping

import numpy as np
import onnx
from onnx import numpy_helper

from odtc.core.errors import ModelError, UnsupportedError, UsageError
from odtc.core.specs import TensorSpec
from odtc.core.weight_places import FLOATS, float_tensors
from odtc.frontend.graph import MAIN_DOMAINS, Graph, attributes, numpy_dtype
from odtc.frontend.lift import lift
from odtc.frontend.normalize.constants import fold_and_infer, fold_constants
from odtc.frontend.normalize.resolve import resolve
from odtc.frontend.normalize.widen import widen
from odtc.frontend.onnx_file import modern, opset_of
from odtc.frontend.weights.classify import classify
from odtc.frontend.weights.finding import Kind
from odtc.frontend.weights.losses import losses_of
from odtc.frontend.weights.notes import listed, notes_of
from odtc.frontend.weights.uses import flattened

MAX_BATCH = 1 << 20
_KEPT = (Kind.PARAMETER, Kind.FROZEN)
_FLOATS = frozenset(map(numpy_dtype, FLOATS))


def specialize(
    model: onnx.ModelProto,
    batch: int | None = None,
    shape: Mapping[str, int] | None = None,
    promoted: Collection[str] = (),
) -> Graph:
    """Binds the batch and all other symbolic dimensions.

    Dimension 0 of the first input is the batch. A model that was exported with a fixed batch is
    re-batched: every input that starts with that number starts with `batch` instead, and reshapes
    to it follow their input.

    Args:
        model: a checked ONNX model.
        batch: samples in a step; may be left out where the model has a fixed batch.
        shape: sizes of the other symbolic dimensions, by name.
        promoted: names of tensors to train whatever they are; other text in it is left alone.

    Raises:
        UsageError: a symbolic dimension is not given, or the batch is not in [1, 2**20].
        ModelError: the model has no input, or cannot be re-batched.
        UnsupportedError: the model needs operators outside ONNX's default set.
    """
    model = modern(model)
    check_domains(model)
    graph = read_graph(model, promoted)
    feeds = _feeds(model)
    if not feeds:
        raise ModelError("the model has no input to feed", hint="export it with an input")
    sizes, fixed_batch = _bind_symbols(feeds, batch, dict(shape or {}))
    graph.inputs = tuple(_input_spec(value, sizes, fixed_batch, batch) for value in feeds)
    fold_constants(graph)
    if fixed_batch is not None and batch is not None and batch != fixed_batch:
        _follow_batch(graph, fixed_batch)
    fold_and_infer(graph)
    while resolve(graph):
        fold_and_infer(graph)
    widen(graph)
    return graph


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
    values = {name: _value(name, tensor) for name, tensor in lifted.tensors.items()}
    with np.errstate(over="ignore"):
        floats = {
            name: value.astype(np.float32, copy=False)
            for name, value in values.items()
            if value.dtype.name in _FLOATS
        }
    findings = classify(model, lifted.nodes, floats, written=lifted.written, promoted=promoted)
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
    )
    for value in model.graph.output:
        if value.type.tensor_type.elem_type:
            graph.dtypes[value.name] = numpy_dtype(value.type.tensor_type.elem_type)
    written = [name for name in graph.parameters if name in lifted.written]
    if written:
        graph.notes.append(f"Constant nodes hold weights, which are parameters: {listed(written)}")
    graph.notes += [*losses_of(model, findings), *notes_of(findings)]
    return graph


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
            "params",
        )


def _value(name: str, tensor: onnx.TensorProto) -> np.ndarray:
    try:
        return numpy_helper.to_array(tensor)
    except (KeyError, TypeError, ValueError) as error:
        raise ModelError(
            f"the data of an initializer is damaged: {error}",
            where=f"initializer {name}",
            hint="export the model again, and check that the file was copied whole",
        ) from error


def batch_symbol(model: onnx.ModelProto) -> str | None:
    """Name of the symbolic batch, empty where it has none; None where the batch is fixed."""
    dims = [dim for value in _feeds(model)[:1] for dim in value.type.tensor_type.shape.dim]
    return None if not dims or dims[0].HasField("dim_value") else dims[0].dim_param


def _feeds(model: onnx.ModelProto) -> list[onnx.ValueInfoProto]:
    """The inputs that a caller feeds: up to IR version 3 initializers are inputs too."""
    initializers = {tensor.name for tensor in model.graph.initializer}
    return [value for value in model.graph.input if value.name not in initializers]


def check_domains(model: onnx.ModelProto) -> None:
    """Checks that all operators are of ONNX's default set.

    Raises:
        UnsupportedError: one is not.
    """
    for node in model.graph.node:
        if node.domain not in MAIN_DOMAINS:
            raise UnsupportedError(
                f"operator {node.op_type} is of the domain {node.domain!r}; "
                "odtc reads ONNX's default operators only",
                where=f"node {node.name or node.output[0]}",
                hint="export the model without custom or vendor operators",
            )


def _bind_symbols(
    feeds: list[onnx.ValueInfoProto], batch: int | None, shape: dict[str, int]
) -> tuple[dict[str, int], int | None]:
    """Sizes of the symbolic dimensions, and the fixed batch if the model has one."""
    if batch is not None and not 1 <= batch <= MAX_BATCH:
        raise UsageError(f"batch {batch} is outside [1, {MAX_BATCH}]", hint="pass --batch 4")
    dims = feeds[0].type.tensor_type.shape.dim
    if not dims:
        raise ModelError("the input is a scalar or has no shape", where=f"input {feeds[0].name}")
    symbols = _symbols(feeds)
    unknown = sorted(shape.keys() - symbols.keys())
    if unknown:
        raise UsageError(
            f"the model has no symbolic dimension {', '.join(unknown)}",
            hint=f"it has {', '.join(filter(None, symbols)) or 'none'}",
        )
    fixed = dims[0].dim_value if dims[0].HasField("dim_value") else None
    if fixed is None:
        symbol = dims[0].dim_param
        if batch is None and symbol not in shape:
            raise UsageError(
                f"the model's batch dimension {symbol or '?'!r} is symbolic",
                where=f"input {feeds[0].name}",
                hint="give the number of samples in a step, such as --batch 4",
            )
        shape[symbol] = batch if batch is not None else shape[symbol]
    missing = [name for name in symbols if name not in shape]
    if missing:
        raise UsageError(
            f"symbolic dimensions without a size: {', '.join(name or '?' for name in missing)}",
            where=f"input {symbols[missing[0]]}",
            hint=f"give each a size: --shape {missing[0]}=128"
            if missing[0]
            else "give the dimension a name, or a size, where the model is exported",
        )
    return shape, fixed


def _symbols(feeds: list[onnx.ValueInfoProto]) -> dict[str, str]:
    """The symbolic dimensions, each with the first input that has it."""
    found: dict[str, str] = {}
    for value in feeds:
        for dim in value.type.tensor_type.shape.dim:
            if not dim.HasField("dim_value"):
                found.setdefault(dim.dim_param, value.name)
    return found


def _input_spec(
    value: onnx.ValueInfoProto, sizes: dict[str, int], fixed: int | None, batch: int | None
) -> TensorSpec:
    tensor = value.type.tensor_type
    dims = [
        dim.dim_value if dim.HasField("dim_value") else sizes[dim.dim_param]
        for dim in tensor.shape.dim
    ]
    if fixed is not None and batch is not None and dims and dims[0] == fixed:
        dims[0] = batch
    if any(dim <= 0 for dim in dims):
        raise ModelError(f"the input has an empty shape {dims}", where=f"input {value.name}")
    return TensorSpec(value.name, tuple(dims), numpy_dtype(tensor.elem_type))


def _follow_batch(graph: Graph, fixed: int) -> None:
    """Lets reshapes of data whose target starts with the old batch copy it from their input."""
    data = {spec.name for spec in graph.inputs}
    for node in graph.nodes:
        if not data.intersection(node.input):
            continue
        data.update(node.output)
        target = node.input[1] if node.op_type == "Reshape" else None
        if target not in graph.constants or attributes(node).get("allowzero"):
            continue
        sizes = graph.constants[target].copy()
        if sizes.size > 1 and sizes[0] == fixed:
            sizes[0] = 0
            node.input[1] = graph.add_constant("reshape", sizes)
