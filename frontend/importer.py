"""Normalised ONNX graph to Relax: `forward(inputs..., parameters...) -> outputs`."""

import io
import warnings
from collections.abc import Collection, Mapping, Sequence
from contextlib import redirect_stdout
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.relax import op as R  # noqa: N812
from tvm.relax.frontend.onnx import onnx_frontend
from tvm.relax.op.grad import no_grad

from odtc.core.coded import Coded
from odtc.core.errors import UnsupportedError
from odtc.core.ir.tensor_tags import Tag
from odtc.dialect.elements.dequantised import dequantised
from odtc.frontend.backward.batch_norm import INFERENCE
from odtc.frontend.backward.on_rows import on_rows
from odtc.frontend.backward.rebuild import operators_of
from odtc.frontend.graph import Graph, describe_node
from odtc.frontend.operators.operator import Convert, Node
from odtc.frontend.operators.table import OPERATORS
from odtc.frontend.origins import tagged, tags_of_tensors
from odtc.frontend.patterns.coded_rows import coded_rows
from odtc.frontend.patterns.join_scales import join_scales
from odtc.frontend.patterns.recognize import recognize
from odtc.frontend.patterns.recognize_attention import SOFTMAX, recognize_attention
from odtc.frontend.patterns.slice_rows import slice_rows

FORWARD = "forward"

# A sum of many numbers in half precision would lose the last of them.
_SUMMING = frozenset(
    "Conv ConvTranspose LRN LogSoftmax MatMul ReduceMean ReduceSum Softmax".split()
)

# TVM's converters refuse a node with whichever of Python's errors they happen to meet.
_REFUSALS = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError),
    *(NotImplementedError, RuntimeError, TypeError, ValueError),
)


def import_forward(graph: Graph, varied: Collection[str] | None = None) -> tvm.IRModule:
    """A module with the inference function of a normalised graph, as one dataflow block.

    Its arguments are the inputs, the parameters and then the graph's labels, in the graph's order;
    constants are bound.
    It returns the output, or a tuple where there are several. Beside it lie the kernels that it
    calls directly. Variables are named by the ONNX tensor that they hold (`frontend/origins.py`).

    Args:
        graph: a normalised graph.
        varied: names of the arguments that a gradient may be wanted of; all parameters by default.

    Raises:
        UnsupportedError: a node cannot be written in Relax.
    """
    specs = (*graph.inputs, *graph.parameter_specs(), *graph.labels)
    tags, held = tags_of_tensors(graph), dict[relax.Var, Tag]()
    params = [
        relax.Var(str(tags[spec.name]), relax.TensorType(spec.shape, spec.dtype)) for spec in specs
    ]
    values: dict[str, Any] = {spec.name: var for spec, var in zip(specs, params, strict=True)}
    # Without the type, Relax would take integers of 64 bits for ones of 32.
    values |= {
        name: relax.const(value, value.dtype.name) for name, value in graph.constants.items()
    }
    # Single precision values of tensors that were rounded to half precision.
    wide: dict[Any, relax.Var] = {}
    builder = relax.BlockBuilder()
    with builder.function(FORWARD, params):
        with builder.dataflow():
            for spec, var in zip(specs, params, strict=True):
                if spec.name in graph.parameters and spec.dtype == "float16":
                    # It stays so in memory; who reads it widens it (`frontend/trained/narrow.py`).
                    values[spec.name] = builder.emit(R.astype(var, "float32"))
                    held[values[spec.name]] = tags[spec.name]
            for name, coded in graph.coded.items():
                values[name] = builder.emit(_dequantised(coded, values))
                held[values[name]] = tags[name]
            for proto in graph.nodes:
                inputs = [values[name] if name else None for name in proto.input]
                results = _convert(builder, Node(graph, proto), inputs, wide)
                for name, result in zip(proto.output, results, strict=False):
                    values[name] = result
                    if name in graph.detached:
                        values[name] = builder.emit(no_grad(result))
                    if isinstance(result, relax.Var):
                        held.setdefault(result, tags[name])
            outputs = [values[name] for name in graph.outputs]
            if len(outputs) == 1:
                result = builder.emit_output(outputs[0], str(tags[graph.outputs[0]]))
            else:
                result = builder.emit_output(relax.Tuple(outputs))
        builder.emit_func_output(result)
    module = builder.finalize()
    names = graph.parameters if varied is None else varied
    wanted = [var for spec, var in zip(specs, params, strict=True) if spec.name in names]
    return _simplified(module, tagged(module[FORWARD], held), wanted)


def _dequantised(coded: Coded, values: Mapping[str, relax.Expr]) -> relax.Expr:
    """The floats of a matrix whose codes, scales and zero points are values."""

    def given(name: str, usual: float) -> relax.Expr:
        return values[name] if name else relax.const(np.full((1, 1), usual, np.float32))

    return dequantised(
        values[coded.weight],
        given(coded.zero, 0.0),
        given(coded.scale, 1.0),
        stored=coded.stored,
        shape=[*coded.shape],
        blocks=[*coded.blocks],
    )


def _simplified(
    module: tvm.IRModule, forward: relax.Function, varied: Sequence[relax.Var]
) -> tvm.IRModule:
    """The module with fewer and larger operators; each step is left out where it finds none."""
    operators = operators_of(forward)
    module[FORWARD] = relax.analysis.remove_all_unused(recognize(forward, operators))
    if dequantised.name in operators:
        module = coded_rows(module, FORWARD)
    if not SOFTMAX.isdisjoint(operators):
        module = recognize_attention(module, FORWARD, varied)
    if "relax.matmul" in operators:
        module = on_rows(module, FORWARD)
        if "relax.strided_slice" in operators:
            module = slice_rows(module, FORWARD)
    return join_scales(module, FORWARD) if INFERENCE in operators else module


def _convert(
    builder: relax.BlockBuilder, node: Node, inputs: list[Any], wide: dict[Any, relax.Var]
) -> list[relax.Expr | None]:
    """The node's outputs as variables."""
    operator = OPERATORS.get(node.proto.op_type)
    convert = (operator and operator.convert) or _by_tvm
    try:
        if node.proto.op_type in _SUMMING and node.dtype() == "float16":
            return [_in_float32(convert, builder, node, inputs, wide)]
        result = convert(builder, node, inputs)
        several = result if isinstance(result, Sequence) else [result]
        return [
            value if value is None or isinstance(value, relax.Var) else builder.emit(value)
            for value in several
        ]
    except _REFUSALS as error:
        reason = str(error).strip().splitlines()[-1:] or [type(error).__name__]
        raise UnsupportedError(
            f"the node cannot be compiled: {reason[0]}",
            where=f"node {describe_node(node.proto)}",
            hint="`odtc check MODEL` lists the operators; please report this model",
        ) from error


def _widened(builder: relax.BlockBuilder, value: Any) -> Any:
    return None if value is None else builder.emit(R.astype(value, "float32"))


def _in_float32(
    convert: Convert,
    builder: relax.BlockBuilder,
    node: Node,
    inputs: list[Any],
    wide: dict[Any, relax.Var],
) -> relax.Var:
    """The only result of a node, in half precision, of operands in single precision.

    One such node after another reads what that had before it was rounded.
    """
    operands = [wide[each] if each in wide else _widened(builder, each) for each in inputs]
    result = convert(builder, node, operands)
    (value,) = result if isinstance(result, Sequence) else [result]
    single = builder.emit(value)
    half = builder.emit(R.astype(single, "float16"))
    wide[half] = single
    return half


def _by_tvm(
    builder: relax.BlockBuilder, node: Node, inputs: Sequence[Any]
) -> relax.Expr | Sequence[relax.Expr]:
    """The node, as TVM's importer converts it."""
    importer = onnx_frontend.ONNXGraphImporter({}, "float32")
    importer.bb, importer.opset = builder, node.opset
    attrs = importer._parse_attr(node.proto.attribute)
    attrs["tvm_custom"] = {"name": node.proto.name, "num_outputs": len(node.proto.output)}
    # It prints to stdout, which is for data.
    with warnings.catch_warnings(), redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        result = importer._convert_operator(
            node.proto.op_type, onnx_frontend.onnx_input(inputs), attrs, node.opset
        )
    if isinstance(result, relax.Tuple):
        return list(result.fields)
    if isinstance(result.ty, relax.TupleType):
        result = builder.emit(result)
        return [relax.TupleGetItem(result, slot) for slot in range(len(result.ty.fields))]
    return result
