"""Puts what a model's own functions do in place of their calls, unless that would be too much.

Of functions each of which calls the next one twice, 30 are a billion nodes. So what each of them
comes to is counted first, once for each function.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import onnx
from onnx import inliner

from odtc.core.disk.file_limits import MOST_INLINED_BYTES, MOST_INLINED_NODES
from odtc.core.errors import ModelError
from odtc.core.onnx_model.weight_places import bodies_of

_HINT = "export the model without functions, or with fewer that call each other"

# Domain, name and overload.
Key = tuple[str, str, str]


@dataclass(frozen=True)
class Extent:
    """The size of nodes once no function is called any more."""

    nodes: int = 0
    nbytes: int = 0

    def __add__(self, other: "Extent") -> "Extent":
        """Of both, one beside the other."""
        return Extent(self.nodes + other.nodes, self.nbytes + other.nbytes)


class _Endless(Exception):  # noqa: N818
    """Functions call each other in a circle: ONNX's inliner says so."""


def inline_functions(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model without functions of its own; the model itself where it has none.

    Raises:
        ModelError: it would be too large.
        ValidationError, RuntimeError, ValueError: ONNX cannot inline them.
    """
    if not model.functions:
        return model
    require_few(model)
    return inliner.inline_local_functions(model)


def require_few(model: onnx.ModelProto) -> None:
    """Checks what the functions that a graph calls would become.

    Raises:
        ModelError: more nodes or bytes than `odtc.core.disk.file_limits` allows.
    """
    functions = {(f.domain, f.name, f.overload): f for f in model.functions}
    known: dict[Key, Extent] = {}
    try:
        for node in _every(model.graph.node):
            key = _key(node)
            if key in functions:
                _check(_extent(key, functions, known, ()), key)
        calls = [key for key in map(_key, _every(model.graph.node)) if key in functions]
    except _Endless:
        return
    if calls:
        _check(sum((known[key] for key in calls), Extent()), calls[0])


def _extent(
    key: Key,
    functions: dict[Key, onnx.FunctionProto],
    known: dict[Key, Extent],
    callers: tuple[Key, ...],
) -> Extent:
    """The size of a call of a function; ONNX's checker lets at most 100 be nested."""
    if key in callers:
        raise _Endless
    if key not in known:
        total = Extent()
        for node in _every(functions[key].node):
            inner = _key(node)
            if inner in functions:
                total += _extent(inner, functions, known, (*callers, key))
            else:
                total += Extent(1, node.ByteSize())
        known[key] = total
    return known[key]


def _check(found: Extent, key: Key) -> None:
    bounds = (
        (found.nodes, MOST_INLINED_NODES, "nodes"),
        (found.nbytes, MOST_INLINED_BYTES, "bytes"),
    )
    for count, most, unit in bounds:
        if count > most:
            raise ModelError(
                f"the model's functions would become {_count_text(count)} {unit}; odtc takes at "
                f"most {most}",
                where=f"function {'::'.join(filter(None, key))}",
                hint=_HINT,
            )


def _count_text(count: int) -> str:
    return str(count) if count < 10**12 else f"over {10**12}"


def _key(node: onnx.NodeProto) -> Key:
    return node.domain, node.op_type, node.overload


def _every(nodes: Iterable[onnx.NodeProto]) -> Iterable[onnx.NodeProto]:
    """The nodes, and those in their bodies."""
    for node in nodes:
        yield node
        for body in bodies_of(node):
            yield from _every(body.node)
