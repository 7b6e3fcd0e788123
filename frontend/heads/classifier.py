"""Finds the layer of an ONNX model that gives the scores of its classes.

The walk goes back from an output through what leaves the scores what they are (activations,
poolings, reshapes), until it meets a product with a stored weight.
"""

from dataclasses import dataclass

import onnx

from odtc.core.errors import UnsupportedError, UsageError
from odtc.core.options.option_text import did_you_mean
from odtc.frontend.graph import attributes, describe_node
from odtc.frontend.heads.tensors import Tensors

# What may stand between the scores and the output, and read them in slot 0.
_PASSING = frozenset(
    "AveragePool Cast Dropout Flatten GlobalAveragePool Identity LogSoftmax ReduceMean Relu "
    "Reshape Sigmoid Softmax Squeeze Unsqueeze".split()
)
AT = "name the tensor that the new head is to read: --at TENSOR"


@dataclass(frozen=True)
class Classifier:
    """The layer that gives the scores of the classes.

    Attributes:
        node: the product: a Gemm, a MatMul or a Conv.
        weight: name of the stored weight.
        class_axis: the axis of the stored weight along which the classes lie.
        fan_in: how many products are summed to a score.
        bias: name of the stored bias, where there is one.
        bias_node: what adds it: `node` itself, or an Add after it.
        classes: how many scores it gives.
        behind: the nodes between the scores and the output, the first one first.
        output: the graph's output that it leads to.
    """

    node: onnx.NodeProto
    weight: str
    class_axis: int
    fan_in: int
    bias: str | None
    bias_node: onnx.NodeProto
    classes: int
    behind: tuple[onnx.NodeProto, ...]
    output: str


def find_classifier(tensors: Tensors, output: str | None = None) -> Classifier:
    """The layer that gives an output's scores.

    Args:
        tensors: of the model.
        output: name of the output; the first from which the walk arrives if None.

    Raises:
        UsageError: the model has no output of that name.
        UnsupportedError: the walk does not arrive at a product with a stored weight.
    """
    declared = [value.name for value in tensors.graph.output]
    if output is not None and output not in declared:
        raise UsageError(
            f"the model has no output {output!r}",
            hint=f"{did_you_mean(output, declared)}it has {', '.join(declared)}",
        )
    stopped = []
    for name in declared if output is None else [output]:
        found = _walk(tensors, name)
        if isinstance(found, Classifier):
            return found
        stopped.append(f"  {name}: {found}")
    raise UnsupportedError(
        "no output comes from a layer with a stored weight:\n" + "\n".join(stopped), hint=AT
    )


def _walk(tensors: Tensors, output: str) -> Classifier | str:
    """The classifier behind an output, or where the walk ended."""
    name, behind = output, list[onnx.NodeProto]()
    while (node := tensors.makers.get(name)) is not None:
        found = _classifier(tensors, node, tuple(reversed(behind)), output)
        if found is not None:
            return found
        if node.op_type not in _PASSING:
            return f"{describe_node(node)} is not a layer with a stored weight"
        behind.append(node)
        name = node.input[0]
    return f"{name} is an input or a stored tensor"


def _classifier(
    tensors: Tensors, node: onnx.NodeProto, behind: tuple[onnx.NodeProto, ...], output: str
) -> Classifier | None:
    """Describes a node as the last layer: a product, or the Add of its bias."""
    if node.op_type == "Add":
        for slot in (0, 1):
            bias, product = (
                tensors.source(node.input[1 - slot]),
                tensors.makers.get(node.input[slot]),
            )
            if bias and product is not None and product.op_type in ("MatMul", "Gemm", "Conv"):
                return _of_product(tensors, product, bias[0], node, behind, output)
        return None
    slot = {"Gemm": 2, "Conv": 2}.get(node.op_type, len(node.input))
    held = tensors.source(node.input[slot]) if slot < len(node.input) else None
    return _of_product(tensors, node, held[0] if held else None, node, behind, output)


def _of_product(
    tensors: Tensors,
    node: onnx.NodeProto,
    bias: str | None,
    bias_node: onnx.NodeProto,
    behind: tuple[onnx.NodeProto, ...],
    output: str,
) -> Classifier | None:
    if node.op_type not in ("MatMul", "Gemm", "Conv"):
        return None
    held = tensors.source(node.input[1])
    dims = tuple(tensors.stored[held[0]].dims) if held else ()
    if held is None or len(dims) < 2 or (node.op_type != "Conv" and len(dims) != 2):
        return None
    weight, turned = held
    if node.op_type == "Conv":
        axis = 0
    else:
        reads_turned = node.op_type == "Gemm" and bool(attributes(node).get("transB", 0))
        axis = 0 if turned != reads_turned else 1
    size = 1
    for dim in dims:
        size *= dim
    return Classifier(
        node, weight, axis, size // dims[axis], bias, bias_node, dims[axis], behind, output
    )
