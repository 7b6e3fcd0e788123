"""Sets aside the outputs that no loss can be on, so that they keep no other output from training.

An output may be an input or an initializer that is passed on, or may need an operator of another
domain, as the labels and maps of classifiers by scikit-learn do. The file keeps them.
"""

import onnx

from odtc.core.errors import UnsupportedError
from odtc.frontend.graph import MAIN_DOMAINS, Graph, describe_node, names_read
from odtc.frontend.normalize.contrib import DOMAIN, FORM_HINTS

_PASSED_ON = "it is an input or a constant of the model, and no node computes it"


def set_aside(graph: Graph) -> None:
    """Takes such outputs, and the nodes of other domains, out of a graph.

    Raises:
        UnsupportedError: no output is left.
    """
    needs: dict[str, str] = {}
    foreign: list[onnx.NodeProto] = []
    kept = []
    for node in graph.nodes:
        reason = next((needs[name] for name in names_read(node) if name in needs), "")
        if node.domain not in MAIN_DOMAINS:
            foreign.append(node)
            reason = f"it needs {describe_node(node)} of the domain {node.domain!r}"
        if reason:
            needs |= dict.fromkeys(filter(None, node.output), reason)
        else:
            kept.append(node)
    made = {name for node in kept for name in node.output}
    aside = {name: needs.get(name, _PASSED_ON) for name in graph.outputs if name not in made}
    if len(aside) == len(graph.outputs):
        if foreign:
            raise foreign_operator(foreign[0])
        raise UnsupportedError(
            f"the output {graph.outputs[0]!r} cannot be trained: {_PASSED_ON}",
            hint="export the model with an output that a node computes",
        )
    graph.nodes = kept
    graph.aside = aside
    graph.outputs = [name for name in graph.outputs if name not in aside]


def foreign_operator(node: onnx.NodeProto) -> UnsupportedError:
    """The error of a node of another domain that cannot be left out."""
    usual = "export the model without custom or vendor operators"
    return UnsupportedError(
        f"operator {node.op_type} is of the domain {node.domain!r}; "
        "odtc reads ONNX's default operators only",
        where=f"node {node.name or node.output[0]}",
        hint=FORM_HINTS.get(node.op_type, usual) if node.domain == DOMAIN else usual,
    )
