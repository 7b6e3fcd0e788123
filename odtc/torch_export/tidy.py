"""Tidies an exporter's file: the module's own names, inputs and outputs, and nothing needless.

A value that has the name of a weight gives way to it. Nodes that no output needs go, such as the
counters of batch normalisations; what an exporter writes of source files goes, too.
"""

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import onnx
from onnx import helper, numpy_helper

from odtc.frontend.graph import attributes, bodies_of, names_read

# Exporters see a module as `module` of the one around it.
_PREFIX = "module."


def tidy(model: onnx.ModelProto, names: Mapping[str, str], outputs: list[str]) -> None:
    """Gives weights and outputs their names, and leaves out what is not needed, in place.

    Args:
        model: as an exporter wrote it.
        names: of each of the module's tensors, by the path of its place.
        outputs: names of the outputs, in order.
    """
    _split_at_once(model.graph)
    _strip(model)
    held = [tensor.name for tensor in model.graph.initializer]
    found = {name: name.removeprefix(_PREFIX) for name in held}
    weights = {name: names[path] for name, path in found.items() if path in names}
    _separate_outputs(model.graph)
    given = dict(zip((v.name for v in model.graph.output), outputs, strict=True))
    _rename(model.graph, _without_clashes(model.graph, weights | given))
    _once(model.graph)
    for node in model.graph.node:
        _train(node)
    drop_unused(model.graph)


def drop_unused(graph: onnx.GraphProto) -> None:
    """Removes nodes that no output needs, and initializers that no node reads."""
    needed = {value.name for value in graph.output}
    kept: list[onnx.NodeProto] = []
    for node in reversed(graph.node):
        if needed.intersection(node.output):
            needed |= names_read(node)
            kept.append(node)
    kept.reverse()
    del graph.node[:]
    graph.node.extend(kept)
    read = [tensor for tensor in graph.initializer if tensor.name in needed]
    del graph.initializer[:]
    graph.initializer.extend(read)


def _separate_outputs(graph: onnx.GraphProto) -> None:
    """Puts a node after each output that is an input, a weight, or an output before it, too."""
    taken = {item.name for item in (*graph.input, *graph.initializer)}
    for number, value in enumerate(graph.output):
        if value.name in taken:
            name = f"{value.name}/output_{number}"
            graph.node.append(helper.make_node("Identity", [value.name], [name], name))
            value.name = name
        taken.add(value.name)


def _split_at_once(graph: onnx.GraphProto) -> None:
    """Lets a Split give the parts of sequences that are read one by one, in place.

    The standard has no sequences of bfloat16. How many parts there are is known by the shapes that
    the exporter wrote.
    """
    items = ((node, item) for node in graph.node for item in node.attribute)
    numbers = {
        node.output[0]: numpy_helper.to_array(item.t)
        for node, item in items
        if node.op_type == "Constant" and item.name == "value"
    }
    shapes = {
        value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for value in graph.value_info
    }
    gone = set()
    for number, node in enumerate(graph.node):
        if node.op_type != "SplitToSequence" or not {*node.input[1:]} & numbers.keys():
            continue
        axis, shape = int(attributes(node).get("axis", 0)), shapes.get(node.input[0], [])
        if not -len(shape) <= axis < len(shape):
            continue
        sizes = _sizes(shape[axis], numbers[node.input[1]])
        reads = [n for n, each in enumerate(graph.node) if node.output[0] in names_read(each)]
        parts = {
            int(numbers[each.input[1]]): each.output[0]
            for each in map(graph.node.__getitem__, reads)
            if each.op_type == "SequenceAt" and each.input[1] in numbers
        }
        if len(parts) < len(reads) or not parts.keys() <= {*range(len(sizes))}:
            continue
        given = f"{node.output[0]}/sizes"
        graph.initializer.append(numpy_helper.from_array(np.array(sizes), given))
        names = [parts.get(n, f"{node.output[0]}/{n}") for n in range(len(sizes))]
        split = helper.make_node("Split", [node.input[0], given], names, node.name, axis=axis)
        graph.node[number].CopyFrom(split)
        gone |= {*reads}
    for number in sorted(gone, reverse=True):
        del graph.node[number]


def _sizes(size: int, split: np.ndarray) -> list[int]:
    """Sizes of parts: as listed, or all alike but for the last; none where they are not known."""
    if split.ndim:
        return split.tolist()
    chunk = int(split)
    return [min(chunk, size - start) for start in range(0, size, chunk)] if chunk > 0 else []


def _train(node: onnx.NodeProto) -> None:
    """Sets a batch normalisation to training mode: those of inference have other nodes."""
    if node.op_type != "BatchNormalization" or attributes(node).get("training_mode"):
        return
    node.output.extend(f"{node.output[0]}_{name}" for name in ("mean", "var"))
    node.attribute.append(helper.make_attribute("training_mode", 1))


def _strip(model: onnx.ModelProto) -> None:
    """Removes debug information (source files and lines), and derived shapes."""
    model.ClearField("metadata_props")
    model.graph.ClearField("metadata_props")
    model.graph.ClearField("value_info")
    for graph in _graphs(model.graph):
        for item in (*graph.node, *graph.input, *graph.output, *graph.initializer):
            item.ClearField("doc_string")
            item.ClearField("metadata_props")


def _graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    yield graph
    for node in graph.node:
        for body in bodies_of(node):
            yield from _graphs(body)


def _without_clashes(graph: onnx.GraphProto, names: dict[str, str]) -> dict[str, str]:
    """The renames, and further ones for values whose names collide with them."""
    values = {name for each in _graphs(graph) for name in _values(each)}
    taken, wanted = values | set(names.values()), set(names.values())
    for value in sorted(values & wanted - names.keys()):
        number = 1
        while (free := f"{value}_{number}") in taken:
            number += 1
        taken.add(free)
        names[value] = free
    return names


def _values(graph: onnx.GraphProto) -> Iterable[str]:
    yield from (item.name for item in (*graph.input, *graph.initializer))
    yield from (name for node in graph.node for name in node.output)


def _rename(graph: onnx.GraphProto, names: Mapping[str, str]) -> None:
    for each in _graphs(graph):
        for item in (*each.input, *each.output, *each.initializer):
            item.name = names.get(item.name, item.name)
        for node in each.node:
            for held in (node.input, node.output):
                held[:] = [names.get(name, name) for name in held]


def _once(graph: onnx.GraphProto) -> None:
    """Keeps one initializer of each name: exporters may write a tied tensor twice."""
    seen: dict[str, onnx.TensorProto] = {}
    for tensor in graph.initializer:
        seen.setdefault(tensor.name, tensor)
    if len(seen) < len(graph.initializer):
        kept = [onnx.TensorProto.FromString(t.SerializeToString()) for t in seen.values()]
        del graph.initializer[:]
        graph.initializer.extend(kept)
