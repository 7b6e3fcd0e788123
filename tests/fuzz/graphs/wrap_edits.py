"""Edits that put nodes into bodies and functions, or take them out."""

from random import Random

import numpy as np
import onnx.inliner
from onnx import NodeProto, TensorProto, helper

from tests.fuzz.corpus import BOOL, I64, body, node, value
from tests.fuzz.graphs.editor import Editor, NoPlaceError, pick


def into_branches(rng: Random, editor: Editor) -> None:
    """A node in both branches of an If, or in one, with its input in the other."""
    chosen = _wrappable(rng, editor)
    name, read = chosen.output[0], chosen.input[0]
    inner = _copy(chosen)
    inner.output[0] = "inside"
    output = helper.make_tensor_value_info("inside", *editor.types[name])
    same = editor.types.get(read) == editor.types[name]
    other = node("Identity", read, "inside") if same and rng.random() < 0.5 else _copy(inner)
    if rng.random() < 0.6:
        condition, before = editor.constant(np.array(rng.random() < 0.5), "yes"), []
    else:
        condition, before = _asked(editor, read)
    made = helper.make_node("If", [condition], [name], f"if_{name}")
    for key, each in (("then_branch", inner), ("else_branch", other)):
        made.attribute.append(helper.make_attribute(key, body([each], [], [output])))
    _replace(editor, chosen, [*before, made])


def into_loop(rng: Random, editor: Editor) -> None:
    """A node in the body of a Loop that runs once, more often, or never."""
    chosen = _wrappable(rng, editor)
    name = chosen.output[0]
    inner = _copy(chosen)
    inner.output[0] = "inside"
    dtype, shape = editor.types[name]
    step = body(
        [inner, node("Identity", "go", "on")],
        [value("i", [], I64), value("go", [], BOOL)],
        [value("on", [], BOOL), value("inside", shape, dtype)],
    )
    stacked = editor.fresh(f"{name}_all")
    trips = editor.constant(np.array(rng.choice([1, 1, 2, 3, 0]), np.int64), "trips")
    made = helper.make_node("Loop", [trips, ""], [stacked], f"loop_{name}", body=step)
    last = editor.constant(np.array(rng.choice([-1, 0]), np.int64), "last")
    taken = helper.make_node("Gather", [stacked, last], [name], f"last_{name}", axis=0)
    _replace(editor, chosen, [made, taken])


def into_function(rng: Random, editor: Editor) -> None:
    """A node in a function of the model's own."""
    chosen = pick(rng, [n for n in editor.nodes if n.input and not n.domain and n.output[0]])
    if any(each.g.node for each in chosen.attribute) or "" in chosen.input:
        raise NoPlaceError
    inner = _copy(chosen)
    inputs = [f"in{at}" for at in range(len(chosen.input))]
    outputs = [f"out{at}" if each else "" for at, each in enumerate(chosen.output)]
    inner.input[:], inner.output[:] = inputs, outputs
    opsets = [item for item in editor.model.opset_import if not item.domain]
    name = f"Function{len(editor.model.functions)}"
    written = [each for each in outputs if each]
    editor.model.functions.append(
        helper.make_function("edited", name, inputs, written, [inner], opsets)
    )
    if not any(item.domain == "edited" for item in editor.model.opset_import):
        editor.model.opset_import.append(helper.make_opsetid("edited", 1))
    kept = [each for each in chosen.output if each]
    made = helper.make_node(name, list(chosen.input), kept, chosen.name, domain="edited")
    _replace(editor, chosen, [made])


def inlined(rng: Random, editor: Editor) -> None:
    """All functions are written out."""
    if not editor.model.functions:
        raise NoPlaceError
    editor.model.CopyFrom(onnx.inliner.inline_local_functions(editor.model))


def through_sequence(rng: Random, editor: Editor) -> None:
    """A value goes through a sequence."""
    name = pick(rng, [name for name in editor.floats() if editor.readers(name)])
    readers = editor.readers(name)
    sequence, taken = editor.fresh("sequence"), editor.fresh("taken")
    at = editor.constant(np.array(rng.choice([0, -1, 1]), np.int64), "at")
    place = editor.place_of(name)
    nodes = [
        node("SequenceConstruct", f"{name} {name}", sequence),
        node("SequenceAt", f"{sequence} {at}", taken),
    ]
    for reader in readers:
        reader.input[:] = [taken if each == name else each for each in reader.input]
    for each in reversed(nodes):
        editor.graph.node.insert(place, each)


def _wrappable(rng: Random, editor: Editor) -> NodeProto:
    """A node with one result of a known type, and no bodies."""
    found = [
        each
        for each in editor.nodes
        if each.input and each.input[0] and len(each.output) == 1 and each.output[0] in editor.types
        if not any(attribute.g.node for attribute in each.attribute)
    ]
    return pick(rng, found)


def _asked(editor: Editor, name: str) -> tuple[str, list[NodeProto]]:
    """A condition on the data, and the nodes that make it."""
    total, asked = editor.fresh("total"), editor.fresh("asked")
    bound = editor.constant(np.array(0, np.float32), "bound")
    wide = editor.fresh("wide")
    nodes = [
        helper.make_node("Cast", [name], [wide], wide, to=TensorProto.FLOAT),
        helper.make_node("ReduceMax", [wide], [total], total, keepdims=0),
        helper.make_node("Less", [total, bound], [asked], asked),
    ]
    return asked, nodes


def _copy(item: NodeProto) -> NodeProto:
    return NodeProto.FromString(item.SerializeToString())


def _replace(editor: Editor, old: NodeProto, new: list[NodeProto]) -> None:
    at = editor.nodes.index(old)
    del editor.graph.node[at]
    for each in reversed(new):
        editor.graph.node.insert(at, each)


EDITS = (into_branches, into_loop, into_function, inlined, through_sequence)
