"""Brings the nodes of a file into topological order, in place, where a tool left them in another.

ONNX wants that order, but converters append nodes (casts of float16 conversion, for one), and
engines sort them as they load a file.
"""

import heapq

import onnx

from odtc.core.onnx_model.weight_places import bodies_of


def sort_nodes(graph: onnx.GraphProto) -> None:
    """Sorts the nodes of a graph and of its bodies; those of a cycle are left where they were.

    Nodes keep their order as far as it is one.
    """
    for node in graph.node:
        for body in bodies_of(node):
            sort_nodes(body)
    if not _is_sorted(graph):
        nodes = [onnx.NodeProto.FromString(n.SerializeToString()) for n in _sorted(graph)]
        del graph.node[:]
        graph.node.extend(nodes)


def _is_sorted(graph: onnx.GraphProto) -> bool:
    waited = set()
    for node in graph.node:
        if not waited.isdisjoint(node.output):
            return False
        waited |= _reads(node)
    return True


def _reads(node: onnx.NodeProto) -> set[str]:
    """The tensors that a node reads, except those of its bodies."""
    names = set(node.input)
    for body in bodies_of(node):
        own = {value.name for value in (*body.input, *body.initializer)}
        own.update(name for inner in body.node for name in inner.output)
        read = {name for inner in body.node for name in _reads(inner)}
        names |= (read | {value.name for value in body.output}) - own
    return names - {""}


def _sorted(graph: onnx.GraphProto) -> list[onnx.NodeProto]:
    nodes = list(graph.node)
    makers = {name: place for place, node in enumerate(nodes) for name in node.output if name}
    needs = [{makers[name] for name in _reads(node) if name in makers} for node in nodes]
    readers: list[list[int]] = [[] for _ in nodes]
    for place, needed in enumerate(needs):
        for other in needed:
            readers[other].append(place)
    left = [len(needed) for needed in needs]
    ready = [place for place, count in enumerate(left) if not count]
    order: list[int] = []
    while ready:
        order.append(heapq.heappop(ready))
        for reader in readers[order[-1]]:
            left[reader] -= 1
            if not left[reader]:
                heapq.heappush(ready, reader)
    order += sorted(set(range(len(nodes))) - set(order))
    return [nodes[place] for place in order]
