"""Unrolls the bodies of Loop and Scan, once for each trip.

A loop in a loop, or a scan over millions of steps, is a few hundred bytes of a file. What each
comes to is added up over the model, before its first node is made.
"""

import onnx

from odtc.core.disk.file_limits import MOST_UNROLLED_BYTES, MOST_UNROLLED_NODES
from odtc.core.errors import UnsupportedError
from odtc.core.onnx_model.weight_places import bodies_of
from odtc.frontend.graph import Graph, describe_node


def count_unrolled(
    graph: Graph, node: onnx.NodeProto, body: onnx.GraphProto, trips: int, beside: int = 0
) -> None:
    """Adds what a node is about to become to what others became.

    Args:
        graph: that takes it in.
        node: a Loop or a Scan.
        body: its body.
        trips: how often that is written out.
        beside: nodes that each trip needs beside those of the body.

    Raises:
        UnsupportedError: there are too many nodes, or bytes of them.
    """
    add_unrolled(graph, node, trips, _nodes_in(body) + beside, body.ByteSize())


def add_unrolled(
    graph: Graph, node: onnx.NodeProto, trips: int, nodes: int, nbytes: int = 0
) -> None:
    """The same of what becomes so many nodes, and bytes of them, at each of its trips."""
    graph.unrolled_nodes += trips * nodes
    graph.unrolled_bytes += trips * nbytes
    for count, most, unit in (
        (graph.unrolled_nodes, MOST_UNROLLED_NODES, "nodes"),
        (graph.unrolled_bytes, MOST_UNROLLED_BYTES, "bytes of nodes"),
    ):
        if count > most:
            raise UnsupportedError(
                f"its {trips} trips, with those of other loops, would become {count} {unit}, over "
                f"{most}",
                where=f"node {describe_node(node)}",
                hint="give shorter sequences, or fewer trips",
            )


def _nodes_in(body: onnx.GraphProto) -> int:
    return sum(1 + sum(map(_nodes_in, bodies_of(node))) for node in body.node)
