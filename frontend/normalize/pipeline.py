"""The order in which an ONNX graph is normalised."""

from odtc.frontend.graph import Graph
from odtc.frontend.normalize.constants import fold_and_infer
from odtc.frontend.normalize.expand import expand_nodes
from odtc.frontend.normalize.gather_rows import gather_rows

STEPS = (expand_nodes, fold_and_infer, gather_rows, Graph.drop_unused)


def normalize(graph: Graph) -> Graph:
    """Normalises in place and returns the graph.

    Raises:
        ModelError: the shapes do not fit together.
    """
    for step in STEPS:
        step(graph)
    return graph
