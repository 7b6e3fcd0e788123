"""Nodes take and give as many values as they say: their bodies, and the parts of a Split.

ONNX's checker looks at nodes and at bodies, and not at the one beside the other; its shape
inference does for some. With fewer parts than outputs it reads what is not there, which may end
the process.
"""

from collections.abc import Callable, Iterable, Iterator

import onnx

from odtc.core.errors import ModelError
from odtc.core.onnx_model.weight_places import bodies_of
from odtc.frontend.graph import MAIN_DOMAINS, attributes, describe_node

# What is wrong between a node and its body: one text each.
_Rule = Callable[[onnx.NodeProto, onnx.GraphProto, bool], Iterator[str]]
_SCAN_HAD_LENGTHS_UNTIL = 8


def require_counts(model: onnx.ModelProto) -> None:
    """Checks every If, Loop, Scan and Split of a model, those in bodies and functions too.

    Raises:
        ModelError: a body and its node do not fit, or parts and outputs.
    """
    opset = next((item.version for item in model.opset_import if item.domain in MAIN_DOMAINS), 1)
    for part in (model.graph, *model.functions):
        _check(part.node, has_lengths=opset <= _SCAN_HAD_LENGTHS_UNTIL)


def _check(nodes: Iterable[onnx.NodeProto], *, has_lengths: bool) -> None:
    for node in nodes:
        if any(item.ref_attr_name for item in node.attribute):
            # Who calls the function says it.
            continue
        if node.op_type == "Split" and node.domain in MAIN_DOMAINS:
            _require_parts(node)
        rule = _RULES.get(node.op_type) if node.domain in MAIN_DOMAINS else None
        for body in bodies_of(node):
            wrong = next(rule(node, body, has_lengths), "") if rule else ""
            if wrong:
                raise ModelError(
                    f"the body {body.name!r} does not fit its node: {wrong}",
                    where=f"node {describe_node(node)}",
                    hint="export the model again",
                )
            _check(body.node, has_lengths=has_lengths)


def _require_parts(node: onnx.NodeProto) -> None:
    given = attributes(node).get("num_outputs", len(node.output))
    if given != len(node.output):
        raise ModelError(
            f"num_outputs is {given}, and there are {len(node.output)} outputs",
            where=f"node {describe_node(node)}",
            hint="export the model again",
        )


def _if(node: onnx.NodeProto, body: onnx.GraphProto, _: bool) -> Iterator[str]:
    yield from _counts(body, 0, len(node.output), len(node.output))


def _loop(node: onnx.NodeProto, body: onnx.GraphProto, _: bool) -> Iterator[str]:
    """It takes the number of the trip, the condition and the state; it gives all but the number."""
    state = max(len(node.input) - 2, 0)
    yield from _counts(body, 2 + state, 1 + max(state, len(node.output)))


def _scan(node: onnx.NodeProto, body: onnx.GraphProto, has_lengths: bool) -> Iterator[str]:
    """It takes the state and a step of each input; it gives the state and a step of each output."""
    attrs = attributes(node)
    given, scanned = len(node.input) - has_lengths, attrs.get("num_scan_inputs", 0)
    state = given - scanned
    if scanned < 1 or state < 0:
        yield f"it scans {scanned} inputs, of {given}"
        return
    yield from _counts(body, given, max(state, len(node.output)))
    for what, count in (("input", scanned), ("output", len(body.output) - state)):
        for name in (f"scan_{what}_axes", f"scan_{what}_directions"):
            if len(attrs.get(name, [0] * count)) != count:
                yield f"{name} has {len(attrs[name])} numbers, for {count} {what}s"


def _counts(
    body: onnx.GraphProto, taken: int, fewest: int, most: int | None = None
) -> Iterator[str]:
    if len(body.input) != taken:
        yield f"it takes {len(body.input)} values, and is given {taken}"
    given = len(body.output)
    if given < fewest or (most is not None and given > most):
        yield f"it gives {given} values, where {fewest} are asked for"


_RULES: dict[str, _Rule] = {"If": _if, "Loop": _loop, "Scan": _scan}
