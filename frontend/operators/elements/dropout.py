"""Dropout.

An inference model says nothing of its training: `training_mode` is ignored, as it is in batch
normalisation, and every node with a ratio above zero drops elements in a training step.
"""

from collections.abc import Sequence
from typing import Any

from tvm import relax

from odtc.core.errors import UsageError
from odtc.frontend.backward.dropout import dropout
from odtc.frontend.graph import Graph, describe_node, only
from odtc.frontend.operators.operator import Emit, Node, Operator
from odtc.frontend.patterns.random_masks import find_masks, note_random

MAX_SEED = 1 << 63
# Since this opset the ratio is an input; before, an attribute.
_RATIO_INPUT_SINCE = 12


def ratio_of(node: Node) -> float | None:
    """The share of elements that a node drops; None where it is not constant."""
    if node.opset < _RATIO_INPUT_SINCE or not node.has(1):
        return float(node.attrs.get("ratio", 0.5))
    value = only(node.graph, node.proto, 1)
    return None if value is None else float(value)


def _dropout(node: Node) -> str:
    """The mask cannot be used; the ratio must be constant, in [0, 1)."""
    if node.is_read(1):
        return "the mask cannot be used"
    ratio = ratio_of(node)
    if ratio is None:
        return "the ratio must be constant"
    return "" if 0 <= ratio < 1 else f"the ratio {ratio} is outside [0, 1)"


def _identity(node: Node, _: Emit) -> str | None:
    return node.inputs[0] if ratio_of(node) == 0 else None


def _convert(_: relax.BlockBuilder, node: Node, inputs: Sequence[Any]) -> list:
    ratio = ratio_of(node)
    assert ratio is not None
    outputs = [each.output[0] for each in node.graph.nodes if each.op_type == "Dropout"]
    stream = outputs.index(node.proto.output[0])
    return [dropout(inputs[0], ratio, stream, node.graph.seed)]


def set_dropout(graph: Graph, applied: bool, seed: int) -> bool:
    """Gives a graph the seed of what is drawn; takes all dropout out, unless it is applied.

    What was taken for dropout is noted, and what is drawn.

    Returns:
        Whether the model has dropout.

    Raises:
        UsageError: the seed is not in [0, 2**63).
    """
    if not 0 <= seed < MAX_SEED:
        raise UsageError(f"seed {seed} is outside [0, 2**63)", hint="pass --seed 1")
    graph.seed = seed
    has_masks = find_masks(graph, applied)
    note_random(graph)
    dropping = [node for node in graph.nodes if node.op_type == "Dropout"]
    for node in () if applied else dropping:
        graph.notes.append(f"{describe_node(node)}: dropout is off")
        node.op_type = "Identity"
        del node.input[1:], node.output[1:], node.attribute[:]
    return has_masks or bool(dropping)


OPERATORS: dict[str, Operator] = {
    "Dropout": Operator(condition=_dropout, expand=_identity, convert=_convert),
}
