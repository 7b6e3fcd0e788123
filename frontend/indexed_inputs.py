"""Which inputs are indices, and of how many rows: they are checked where they are fed.

An index is followed back from what it addresses through operators that keep all values. One of
which only a part is read, or that is computed, is not: the kernels that read by it give NaN where
it is out of bounds (`backends/kernels/gather/take.py`).
"""

from collections.abc import Callable, Mapping

import onnx

from odtc.frontend.graph import Graph, attributes

# Their values are all read, and stay what they are.
_KEEP = frozenset("Cast Expand Flatten Identity Reshape Squeeze Transpose Unsqueeze".split())

Shape = tuple[int, ...]


def indexed_rows(graph: Graph) -> Mapping[str, int]:
    """Inputs whose values address one axis, by name, with the size of the smallest such axis.

    Args:
        graph: its nodes are in topological order.
    """
    rows: dict[str, int] = {}
    for node in reversed(graph.nodes):
        if node.op_type in _SIZES:
            shape, listed = (graph.shapes.get(name) for name in node.input[:2])
            size = _SIZES[node.op_type](node, shape, listed) if shape and listed else 0
            _lower(rows, node.input[1], size)
        elif node.op_type in _KEEP and node.output[0] in rows:
            _lower(rows, node.input[0], rows[node.output[0]])
        elif node.op_type == "Concat" and node.output[0] in rows:
            for name in node.input:
                _lower(rows, name, rows[node.output[0]])
    kinds = {spec.name: spec.dtype for spec in graph.inputs}
    return {name: size for name, size in rows.items() if kinds.get(name, "").startswith("int")}


def _lower(rows: dict[str, int], name: str, size: int) -> None:
    if size:
        rows[name] = min(size, rows.get(name, size))


def _along_axis(node: onnx.NodeProto, shape: Shape, _: Shape) -> int:
    return shape[attributes(node).get("axis", 0) % len(shape)]


def _in_rows(node: onnx.NodeProto, shape: Shape, listed: Shape) -> int:
    """Of positions in several axes each has its own size."""
    return shape[attributes(node).get("batch_dims", 0)] if listed[-1] == 1 else 0


_SIZES: dict[str, Callable[[onnx.NodeProto, Shape, Shape], int]] = {
    "Gather": _along_axis,
    "GatherElements": _along_axis,
    "GatherND": _in_rows,
    "ScatterElements": _along_axis,
    "ScatterND": _in_rows,
}
