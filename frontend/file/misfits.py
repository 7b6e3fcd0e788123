"""Errors for a model that ONNX's shape inference refuses."""

import re
from collections.abc import Iterable, Iterator

import onnx

from odtc.core.errors import ModelError, OdtcError, UnsupportedError
from odtc.core.onnx_model.weight_places import bodies_of

# How shape inference says what is wrong: where, of what kind, and what.
_SAID = re.compile(
    r"(?:\[\w+\]\s*)?\(op_type:\s*(?P<op>[^,)]+)(?:, node name:\s*(?P<name>[^)]*))?\):"
    r"\s*(?:\[\w+\]\s*)?(?P<what>.*)"
)
_SEQUENCES = ("Sequence", "SplitToSequence", "ConcatFromSequence")


def misfit(nodes: Iterable[onnx.NodeProto], error: Exception) -> OdtcError:
    """The error of odtc's for one of shape inference.

    Args:
        nodes: of the graph.
        error: what it raised.
    """
    found = next(_sequences(nodes), None)
    if found is not None:
        return UnsupportedError(
            f"{found.op_type} is of a sequence of tensors, whose shapes are not known before the "
            "run",
            where=f"node {found.name or '-> ' + found.output[0]}",
            hint="PyTorch's default exporter writes nn.EmbeddingBag so: export the module by "
            "odtc.from_torch, or write it as nn.Embedding with a mean or sum over the words",
        )
    return ModelError(
        f"the model's shapes do not fit together: {_first_cause(error)}",
        hint="check the batch size and other sizes: a file that PyTorch exported without dynamic "
        "shapes takes the batch of its example only; odtc.from_torch leaves the batch open",
    )


def _sequences(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Nodes that make sequences, those inside of others too."""
    for node in nodes:
        if node.op_type.startswith(_SEQUENCES):
            yield node
        for body in bodies_of(node):
            yield from _sequences(body.node)


def _first_cause(error: Exception) -> str:
    """The first of the errors that shape inference lists; the others mostly follow from it."""
    said = str(error).strip().splitlines()[0].split("Inference error(s): ")[-1]
    match = _SAID.fullmatch(said)
    if match is None:
        return said
    node = f"node {match['name']} ({match['op']})" if match["name"] else match["op"]
    return f"{match['what'].rstrip('.')}, in {node}"
