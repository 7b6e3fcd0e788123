"""Gives each weight of a file a name of its own, in place, before anything goes by names.

Bodies of control flow have names of their own: both branches of an If may hold another `W`. To the
training step, a checkpoint and the export a weight is its name, so the second one gets another.
"""

from collections.abc import Iterator

import onnx

from odtc.core.onnx_model.weight_places import FLOATS, bodies_of, constant_tensor


def name_weights(model: onnx.ModelProto) -> None:
    """Renames the float tensors of bodies that are called like another tensor of the model."""
    taken = set(_defined(model.graph))
    for node in model.graph.node:
        for body in bodies_of(node):
            _name_in(body, node.output[0], taken)


def _defined(graph: onnx.GraphProto) -> Iterator[str]:
    """Names of the tensors that a graph itself has."""
    for value in (*graph.input, *graph.initializer):
        yield value.name
    for node in graph.node:
        yield from node.output


def _name_in(body: onnx.GraphProto, stem: str, taken: set[str]) -> None:
    """Renames what is taken outside, and goes on with the bodies inside."""
    new = {name: _fresh(name, stem, taken) for name in _weights(body) if name in taken}
    for old, name in new.items():
        _rename(body, old, name)
    taken.update(_defined(body))
    for node in body.node:
        for inner in bodies_of(node):
            _name_in(inner, f"{stem}::{node.output[0]}", taken)


def _weights(body: onnx.GraphProto) -> list[str]:
    held = [tensor.name for tensor in body.initializer if tensor.data_type in FLOATS]
    return held + [node.output[0] for node in body.node if constant_tensor(node) is not None]


def _fresh(name: str, stem: str, taken: set[str]) -> str:
    fresh, number = f"{stem}::{name}", 1
    while fresh in taken:
        number += 1
        fresh = f"{stem}::{name}::{number}"
    taken.add(fresh)
    return fresh


def _rename(body: onnx.GraphProto, old: str, new: str) -> None:
    """Renames a tensor where a body has it, and where what is inside of the body reads it."""
    for value in (*body.initializer, *body.value_info, *body.output):
        if value.name == old:
            value.name = new
    for node in body.node:
        for names in (node.input, node.output):
            for slot, name in enumerate(names):
                names[slot] = new if name == old else name
        for inner in bodies_of(node):
            if old not in _defined(inner):
                _rename(inner, old, new)
