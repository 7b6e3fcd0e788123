"""All text of a model file is UTF-8, as ONNX says; protobuf hands on whatever bytes a file holds.

Where they are no text it gives bytes in place of a string, and whoever compares, joins or prints
names then fails in the middle of something.
"""

from collections.abc import Iterable, Iterator

import onnx

from odtc.core.errors import ModelError
from odtc.core.onnx_model.weight_places import bodies_of
from odtc.frontend.graph import MAIN_DOMAINS

_STRINGS = (onnx.AttributeProto.STRING, onnx.AttributeProto.STRINGS)
_HINT = "export the model again, and check that the file was copied whole"


def require_text(model: onnx.ModelProto, where: str) -> None:
    """Checks the names, the string attributes and the metadata of a model that was just read.

    String attributes of other domains may hold bytes: nothing here decodes them.

    Raises:
        ModelError: some of it is not UTF-8.
    """
    _check(_pairs(model), where)
    _check((model.producer_name, *(item.domain for item in model.opset_import)), where)
    _check_graph(model.graph, where)
    for part in model.functions:
        _check((part.name, part.domain, *part.input, *part.output, *part.attribute), where)
        _check_nodes(part.node, where)


def _check_graph(graph: onnx.GraphProto, where: str) -> None:
    values = (*graph.input, *graph.output, *graph.value_info)
    _check((graph.name, *(item.name for item in (*values, *graph.initializer))), where)
    for value in values:
        _check((dim.dim_param for dim in value.type.tensor_type.shape.dim), where)
    _check(_pairs(graph), where)
    _check_nodes(graph.node, where)


def _check_nodes(nodes: Iterable[onnx.NodeProto], where: str) -> None:
    for node in nodes:
        _check((node.name, node.op_type, node.domain, *node.input, *node.output), where)
        if node.metadata_props:
            _check(_pairs(node), where)
        _check_attributes(node)
        for body in bodies_of(node):
            _check_graph(body, where)


def _check_attributes(node: onnx.NodeProto) -> None:
    for item in node.attribute:
        if isinstance(item.name, bytes) or isinstance(item.ref_attr_name, bytes):
            _check((item.name, item.ref_attr_name), _node_text(node))
        if item.type in _STRINGS and node.domain in MAIN_DOMAINS:
            for value in (item.s, *item.strings):
                _decode(value, f"the string attribute {item.name}", _node_text(node))


def _pairs(held: onnx.ModelProto | onnx.GraphProto | onnx.NodeProto) -> Iterator[str]:
    for pair in held.metadata_props:
        yield pair.key
        yield pair.value


def _check(texts: Iterable[str], where: str) -> None:
    held = tuple(texts)
    try:
        "".join(held)
    except TypeError:
        for text in held:
            if isinstance(text, bytes):
                _decode(text, "a name in the model", where)
        raise


def _decode(value: bytes, what: str, where: str) -> None:
    try:
        value.decode()
    except UnicodeDecodeError as error:
        raise ModelError(
            f"{what} is not UTF-8: byte {value[error.start]:#x} at {error.start} of "
            f"{_shown(value)}",
            where=where,
            hint=_HINT,
        ) from error


def _shown(value: bytes) -> str:
    return f"'{value.decode(errors='backslashreplace')[:80]}'"


def _node_text(node: onnx.NodeProto) -> str:
    return f"node {node.name or '-> ' + ', '.join(node.output)} ({node.op_type})"
