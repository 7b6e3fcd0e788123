"""The inference form of an ONNX model: what a file becomes that was exported to be trained.

    BatchNormalization   normalises by the running statistics, and gives nothing else
    Dropout              is the identity; one whose mask is read stays, and keeps everything
    a random mask        that spells a dropout out is the identity, too

The operator set, the names of inputs and outputs, and everything else of the file stay. All of it
holds in bodies of If, Loop and Scan, and in functions that the file defines.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import onnx
from onnx import helper

from odtc.core.errors import UnsupportedError
from odtc.core.onnx_model.masked import dropped_out
from odtc.core.onnx_model.random_masks import (
    LINEAR,
    Constant,
    Producers,
    constants_of,
    mask_of,
    mean_of,
)
from odtc.core.onnx_model.weight_places import bodies_of

_MAIN = ("", "ai.onnx")
# Before it, an attribute says whether a node is run for inference, and the default is no.
_NO_IS_TEST = 7
# Since it, an input of Dropout says whether it drops; before, a file never did.
_MODE_INPUT = 12
# Since it, an attribute of BatchNormalization says so; before, its further outputs did.
_MODE_ATTRIBUTE = 14
_HINT = "export the model for inference, or keep the training form: --export-training"


@dataclass
class _Changes:
    """Findings while a model is rewritten.

    Attributes:
        batch_norms: batch normalisations that took statistics of the batch.
        dropouts: dropouts that became the identity.
        has_added_mask: whether a mask had its mean in a sum, too: that is no identity.
        unread: names that a node does not read any more.
    """

    batch_norms: int = 0
    dropouts: int = 0
    has_added_mask: bool = False
    unread: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class _Body:
    """Nodes with what they can see.

    Attributes:
        nodes: of a graph or a function; changed in place.
        opset: of the default operators.
        reads: how often each name is read, in all of the model or function.
        producers: nodes by what they give, those around the body too.
        stored: initializers by name, those around the body too.
        changes: what was found so far.
    """

    nodes: list[onnx.NodeProto]
    opset: int
    reads: Counter[str]
    producers: Producers
    stored: Mapping[str, onnx.TensorProto]
    changes: _Changes


def to_inference(model: onnx.ModelProto) -> tuple[str, ...]:
    """Gives a model its inference form, in place.

    Returns:
        What was changed, in words; nothing where the model had that form.

    Raises:
        UnsupportedError: a tensor that only training has is read elsewhere.
    """
    changes = _Changes()
    dropped = _drop_statistics(model.graph)
    opset = _opset_of(model.opset_import)
    _rewrite_all(model.graph, opset, changes)
    for function in model.functions:
        _rewrite_all(function, _opset_of(function.opset_import) or opset, changes)
    had_training = bool(model.training_info)
    del model.training_info[:]
    said = {
        f"{_count(changes.batch_norms, 'batch normalisation')} by running statistics": (
            changes.batch_norms
        ),
        f"{_count(changes.dropouts, 'dropout')} left out": changes.dropouts,
        "masks that are added, too, by their mean: this is no AlphaDropout, which is left out": (
            changes.has_added_mask
        ),
        f"without the outputs {', '.join(dropped)}, which only training has": dropped,
        "without the training graph in the file": had_training,
    }
    return tuple(text for text, applies in said.items() if applies)


def random_nodes(model: onnx.ModelProto) -> list[str]:
    """How messages name the nodes that draw random numbers at each run."""
    return [
        f"{node.name or '-> ' + node.output[0]} ({node.op_type})"
        for nodes in (model.graph.node, *(each.node for each in model.functions))
        for node in _all_nodes(nodes)
        if node.op_type.startswith("Random") or node.op_type in ("Bernoulli", "Multinomial")
    ]


def _rewrite_all(
    whole: onnx.GraphProto | onnx.FunctionProto, opset: int, changes: _Changes
) -> None:
    outputs = (
        [value.name for value in whole.output]
        if isinstance(whole, onnx.GraphProto)
        else whole.output
    )
    reads = Counter(_names_read(whole.node))
    reads.update(outputs)
    _rewrite(whole, opset, reads, {}, {}, changes)


def _rewrite(
    part: onnx.GraphProto | onnx.FunctionProto,
    opset: int,
    reads: Counter[str],
    around: Producers,
    stored: Mapping[str, onnx.TensorProto],
    changes: _Changes,
) -> None:
    """A graph or a function with all its bodies, innermost first, so that what fed them can go."""
    if isinstance(part, onnx.GraphProto):
        stored = {**stored, **{tensor.name: tensor for tensor in part.initializer}}
    own = {name: node for node in part.node for name in node.output}
    body = _Body(list(part.node), opset, reads, {**around, **own}, stored, changes)
    for node in body.nodes:
        for graph in bodies_of(node):
            _rewrite(graph, opset, reads, body.producers, stored, changes)
    kept = _without_unread(_rewritten(body), body)
    if len(kept) != len(part.node) or any(a is not b for a, b in zip(kept, part.node, strict=True)):
        copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in kept]
        del part.node[:]
        part.node.extend(copies)
    if isinstance(part, onnx.GraphProto):
        _forget(part, body)


def _rewritten(body: _Body) -> list[onnx.NodeProto]:
    """The nodes of a body in inference form."""
    constant = constants_of(body.producers, body.stored)
    for node in body.nodes:
        data = dropped_out(node, body.producers, constant)
        if data is not None:
            _to_identity(node, data, body)
    body = replace(body, nodes=_without_unread(body.nodes, body))
    nodes: list[onnx.NodeProto] = []
    for node in body.nodes:
        rule = _RULES.get(node.op_type) if node.domain in _MAIN else None
        nodes += rule(node, body) if rule else _averaged(node, body, constant)
    return nodes


def _averaged(node: onnx.NodeProto, body: _Body, constant: Constant) -> list[onnx.NodeProto]:
    """The node, or the mean of a mask that it gives and that is only multiplied and added."""
    mask = mask_of(node, body.producers, constant)
    if mask is None:
        return [node]
    output = node.output[0]
    readers = [each for each in body.nodes if output in each.input]
    divides = any(each.op_type == "Div" and each.input[1] == output for each in readers)
    known = all(each.op_type in LINEAR for each in readers)
    reads = sum(list(each.input).count(output) for each in readers)
    if not readers or divides or not known or reads != body.reads[output]:
        return [node]
    mean = mean_of(node, mask)
    body.reads.update(_names_read(mean))
    _stop_reading(node.input, body)
    body.changes.dropouts += 1
    body.changes.has_added_mask |= any(each.op_type in ("Add", "Sub") for each in readers)
    return mean


def _batch_norm(node: onnx.NodeProto, body: _Body) -> list[onnx.NodeProto]:
    """Running statistics that are read elsewhere are those that the node was given."""
    mode = _attribute(node, "training_mode")
    trains = len(node.output) > 1 or (mode is not None and bool(mode.i or mode.ref_attr_name))
    if body.opset < _NO_IS_TEST:
        trains = _set_is_test(node)
    elif body.opset >= _MODE_ATTRIBUTE:
        _drop_attribute(node, "training_mode")
    body.changes.batch_norms += trains
    further = dict(zip(node.output[1:], [*node.input[3:5], "", ""], strict=False))
    del node.output[1:]
    same = []
    for name, statistic in further.items():
        if not name or not body.reads[name]:
            continue
        if not statistic:
            raise UnsupportedError(
                f"the batch's own statistic {name!r} is read elsewhere: inference has none",
                where=f"node {node.name or '-> ' + node.output[0]} (BatchNormalization)",
                hint=_HINT,
            )
        same.append(helper.make_node("Identity", [statistic], [name]))
        body.reads[statistic] += 1
    return [node, *same]


def _dropout(node: onnx.NodeProto, body: _Body) -> list[onnx.NodeProto]:
    """In inference its mask is all true, which only the operator itself says in every version."""
    if not any(body.reads[name] for name in node.output[1:]):
        _to_identity(node, node.input[0], body)
    elif body.opset >= _MODE_INPUT:
        _stop_reading(node.input[1:], body)
        del node.input[1:]
        body.changes.dropouts += 1
    elif body.opset < _NO_IS_TEST:
        body.changes.dropouts += _set_is_test(node)
    return [node]


_RULES: dict[str, Callable[[onnx.NodeProto, _Body], list[onnx.NodeProto]]] = {
    "BatchNormalization": _batch_norm,
    "Dropout": _dropout,
}


def _to_identity(node: onnx.NodeProto, data: str, body: _Body) -> None:
    # Of an AlphaDropout's sum the data is read by a product in front of it.
    body.reads[data] += data not in node.input
    _stop_reading([name for name in node.input if name != data], body)
    result = node.output[0]
    node.op_type = "Identity"
    del node.input[:], node.output[:], node.attribute[:]
    node.input.append(data)
    node.output.append(result)
    body.changes.dropouts += 1


def _stop_reading(names: Iterable[str], body: _Body) -> None:
    for name in filter(None, names):
        body.reads[name] -= 1
        body.changes.unread.add(name)


def _without_unread(nodes: list[onnx.NodeProto], body: _Body) -> list[onnx.NodeProto]:
    """Without what only fed what is gone; what nothing read before stays."""
    kept = []
    for node in reversed(nodes):
        was_read = body.changes.unread.intersection(node.output)
        if was_read and not any(body.reads[name] for name in node.output):
            _stop_reading(_names_read([node]), body)
        else:
            kept.append(node)
    return kept[::-1]


def _forget(graph: onnx.GraphProto, body: _Body) -> None:
    """Initializers that only fed what is gone, and shapes of tensors that are."""
    gone = {name for name in body.changes.unread if not body.reads[name]}
    stored = {tensor.name for tensor in graph.initializer} & gone
    _keep(graph.initializer, lambda item: item.name not in stored)
    # Up to IR version 3 initializers are inputs too; without a value they would have to be fed.
    _keep(graph.input, lambda item: item.name not in stored)
    alive = {name for node in graph.node for name in node.output}
    alive |= {item.name for item in (*graph.input, *graph.initializer)}
    _keep(graph.value_info, lambda item: item.name in alive)


def _keep(items: Any, is_kept: Callable[[Any], bool]) -> None:
    """Leaves some items of a protobuf's list in place; none is copied, for some are large."""
    for index in reversed([index for index, item in enumerate(items) if not is_kept(item)]):
        del items[index]


def _drop_statistics(graph: onnx.GraphProto) -> list[str]:
    """Takes the running statistics that batch normalisations give from a model's outputs."""
    given = {
        name
        for node in graph.node
        if node.op_type == "BatchNormalization" and node.domain in _MAIN
        for name in node.output[1:]
    }
    dropped = [value.name for value in graph.output if value.name in given]
    if len(dropped) == len(graph.output):
        return []
    _keep(graph.output, lambda value: value.name not in given)
    return dropped


def _set_is_test(node: onnx.NodeProto) -> bool:
    """Whether the node was not yet run for inference."""
    given = _attribute(node, "is_test")
    if given is not None and given.i:
        return False
    _drop_attribute(node, "is_test")
    node.attribute.append(helper.make_attribute("is_test", 1))
    return True


def _attribute(node: onnx.NodeProto, name: str) -> onnx.AttributeProto | None:
    return next((item for item in node.attribute if item.name == name), None)


def _drop_attribute(node: onnx.NodeProto, name: str) -> None:
    _keep(node.attribute, lambda item: item.name != name)


def _all_nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    for node in nodes:
        yield node
        for body in bodies_of(node):
            yield from _all_nodes(body.node)


def _names_read(nodes: Iterable[onnx.NodeProto]) -> Iterator[str]:
    """Each time that a name is read, in bodies too, as a body's output as well."""
    for node in nodes:
        yield from node.input
        for body in bodies_of(node):
            yield from _names_read(body.node)
            yield from (value.name for value in body.output)


def _opset_of(imports: Iterable[onnx.OperatorSetIdProto]) -> int:
    return next((item.version for item in imports if item.domain in _MAIN), 0)


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
