"""Moves the weights of a model's own functions into its graph.

A weight in a function is one weight, however often the function is called; once the calls have
given way to what they do (`odtc.frontend.file.inline_functions`), each has a copy. The copies are
marked before, and become one initializer, `FUNCTION::NAME`, that the file comes out with.
"""

from collections.abc import Iterable, Iterator

import onnx

from odtc.core.errors import ModelError
from odtc.core.onnx_model.weight_places import bodies_of, constant_tensor
from odtc.frontend.file.inline_functions import inline_functions

_MARK = "odtc.function_weight"


def without_function_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model itself, or one without functions where one of them has a weight.

    Raises:
        ModelError: the functions call each other without end, or come to too much.
    """
    if not any(_is_weight(node) for each in model.functions for node in _every(each.node)):
        return model
    for function in model.functions:
        for node in filter(_is_weight, _every(function.node)):
            node.metadata_props.add(key=_MARK, value=f"{function.name}::{node.output[0]}")
    try:
        model = inline_functions(model)
    except (onnx.checker.ValidationError, RuntimeError, ValueError) as error:
        raise ModelError(
            f"the model's functions cannot be resolved: {str(error).splitlines()[0]}",
            hint="export it without functions",
        ) from error
    names: dict[str, str] = {}
    _take_out(model.graph, model.graph, names)
    return model


def _is_weight(node: onnx.NodeProto) -> bool:
    tensor = constant_tensor(node)
    return tensor is not None and len(tensor.dims) > 0


def _every(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """The nodes, and those in their bodies."""
    for node in nodes:
        yield node
        for body in bodies_of(node):
            yield from _every(body.node)


def _take_out(graph: onnx.GraphProto, main: onnx.GraphProto, names: dict[str, str]) -> None:
    """Makes initializers of the marked constants, and has their readers read these."""
    kept, given = [], {value.name for value in graph.output}
    for node in graph.node:
        mark = _mark_of(node)
        if mark is None or node.output[0] in given:
            for slot, name in enumerate(node.input):
                node.input[slot] = names.get(name, name)
            for body in bodies_of(node):
                _take_out(body, main, names)
            kept.append(onnx.NodeProto.FromString(node.SerializeToString()))
            continue
        if mark not in {tensor.name for tensor in main.initializer}:
            main.initializer.extend(filter(None, [constant_tensor(node)]))
            main.initializer[-1].name = mark
        names[node.output[0]] = mark
    del graph.node[:]
    graph.node.extend(kept)


def _mark_of(node: onnx.NodeProto) -> str | None:
    """The name of the weight that a constant is a copy of; the mark is taken off."""
    found = None
    for place, item in reversed(list(enumerate(node.metadata_props))):
        if item.key == _MARK:
            found = item.value
            del node.metadata_props[place]
    return found
