"""Takes out casts from float32 to float32, so that a weight behind one is read as any other."""

import onnx
from onnx import TensorProto

from odtc.frontend.graph import Graph
from odtc.frontend.normalize.control.subgraphs import rename

_WIDE = "float32"


def drop_casts(graph: Graph) -> None:
    """Lets the readers of such a cast's result read what it reads, in place.

    Of a cast that gives an output, the node in front gives it: what is looked for at an output,
    such as a closing activation, must be found there.
    """
    made: set[str] = set()
    names: dict[str, str] = {}
    kept = []
    for node in graph.nodes:
        source = node.input[0] if node.input else ""
        source = names.get(source, source)
        if _changes_nothing(graph, node, source):
            result = node.output[0]
            if result not in graph.outputs:
                names[result] = source
                continue
            if source in made and source not in graph.outputs:
                names = {old: result if new == source else new for old, new in names.items()}
                names[source] = result
                made.add(result)
                continue
        made.update(node.output)
        kept.append(node)
    graph.nodes = [rename(node, names) for node in kept] if names else kept


def _changes_nothing(graph: Graph, node: onnx.NodeProto, source: str) -> bool:
    return (
        node.op_type == "Cast"
        and graph.dtypes.get(source) == _WIDE
        and any(item.name == "to" and item.i == TensorProto.FLOAT for item in node.attribute)
    )
