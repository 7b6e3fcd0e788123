"""Tells scores from a loss: what a layer gives is no loss, though its mean could be minimised."""

import math

from odtc.core.errors import ModelError
from odtc.frontend.graph import Graph, describe_node

_LAYERS = frozenset(("Gemm", "MatMul", "Conv", "ConvTranspose"))
# What may stand between a layer and an output, with the operand that is followed.
_BETWEEN = frozenset(
    (
        *("Identity", "Cast", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose"),
        *("Softmax", "LogSoftmax", "Sigmoid"),
    )
)


def require_loss(graph: Graph, output: str) -> None:
    """Checks that an output that is taken for the loss is not several scores of a layer.

    Raises:
        ModelError: it is.
    """
    shape = graph.shapes.get(output, ())
    layer = _layer_of(graph, output)
    if not layer or math.prod(shape) == 1:
        return
    losses = [name for name in graph.outputs if math.prod(graph.shapes.get(name, (0,))) == 1]
    instead = f"take {losses[0]}=in-model; or " if losses else ""
    raise ModelError(
        f"in-model takes an output as the loss; {output!r} {list(shape)} holds scores of {layer}",
        where=f"output {output}",
        hint=f"{instead}use a loss that compares them with labels, such as cross-entropy; or let "
        "the model take the labels as an input and return its loss as one number",
    )


def _layer_of(graph: Graph, output: str) -> str:
    """The layer whose result an output is, as text; empty where it is something else."""
    makers = {name: node for node in graph.nodes for name in node.output}
    tensor = output
    while (node := makers.get(tensor)) is not None:
        if node.op_type in _LAYERS:
            return describe_node(node)
        added = [name for name in node.input if name in makers] if node.op_type == "Add" else []
        if node.op_type in _BETWEEN:
            tensor = node.input[0]
        elif len(added) == 1 and not graph.parameters.keys().isdisjoint(node.input):
            tensor = added[0]  # a bias after a product
        else:
            return ""
    return ""
