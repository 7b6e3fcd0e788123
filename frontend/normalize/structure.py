"""Rewrites of the graph's structure: which output is trained, and from where."""

from odtc.frontend.graph import Graph, describe_node

CLOSING = ("Softmax", "LogSoftmax")


def train_on_logits(graph: Graph) -> None:
    """Drops a Softmax or LogSoftmax that closes the graph: cross-entropy takes the logits."""
    output = graph.outputs[0]
    last = next((node for node in graph.nodes if output in node.output), None)
    if last is None or last.op_type not in CLOSING:
        return
    graph.nodes.remove(last)
    graph.outputs[0] = last.input[0]
    graph.notes.append(
        f"{describe_node(last)} closes the model: it is trained on, and evaluates to, the logits "
        f"{last.input[0]!r} in front of it"
    )


def keep_first_output(graph: Graph) -> None:
    """The first output is the one that is trained; others are left out, and it says so."""
    if len(graph.outputs) > 1:
        dropped = ", ".join(graph.outputs[1:])
        graph.notes.append(f"outputs not trained in this version: {dropped}")
        graph.outputs = graph.outputs[:1]
