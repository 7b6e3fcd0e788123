"""Where the tensors of a graph are copied as a whole, and how to read them there."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from tvm import relax
from tvm.relax import op as R  # noqa: N812

from odtc.core.relax_calls import operator_of

# From a copy to the tensor that was copied, as Relax operators.
Undo = Callable[[relax.Expr], relax.Expr]

RESHAPE, _PERMUTE, _CONCAT = "relax.reshape", "relax.permute_dims", "relax.concat"
_COPYING = (RESHAPE, _PERMUTE, _CONCAT)
# The axis of channels.
_CHANNELS = 1


@dataclass(frozen=True)
class Copy:
    """A tensor whose elements are all in another one.

    Attributes:
        source: the tensor.
        result: the other one.
        undo: the tensor from the result.
        is_of_channels: whether it is some channels of the result.
    """

    source: relax.Var
    result: relax.Var
    undo: Undo
    is_of_channels: bool = False


def copies_in(bindings: Sequence[relax.Binding]) -> dict[relax.Var, list[Copy]]:
    """The copies that are made of each tensor."""
    found: dict[relax.Var, list[Copy]] = defaultdict(list)
    for copy in (copy for binding in bindings for copy in _copies_of(binding)):
        found[copy.source].append(copy)
    for copy in _prefixes(bindings):
        found[copy.source].append(copy)
    return found


def _copies_of(binding: relax.Binding) -> Iterator[Copy]:
    """Each tensor that a binding copies as a whole, or gives another shape."""
    value, result = binding.value, binding.var
    if operator_of(value) not in _COPYING:
        return
    given: relax.Expr = value.args[0]
    if operator_of(value) == RESHAPE and isinstance(given, relax.Var):
        shape = given.ty.shape
        yield Copy(given, result, lambda copy: R.reshape(copy, shape))
    elif operator_of(value) == _PERMUTE and isinstance(given, relax.Var):
        axes = _axes(value)
        # Neighbours in memory have to stay neighbours.
        if axes[-1] == len(axes) - 1:
            yield Copy(given, result, lambda copy: R.permute_dims(copy, np.argsort(axes).tolist()))
    elif isinstance(given, relax.Tuple):
        axis = int(value.attrs.axis) % len(result.ty.shape)
        ends = list(accumulate(int(each.ty.shape[axis]) for each in given))
        for each, begin, end in zip(given, [0, *ends], ends, strict=False):
            if isinstance(each, relax.Var):
                yield _slice(each, result, axis, begin, end)


def _prefixes(bindings: Sequence[relax.Binding]) -> Iterator[Copy]:
    """Concats whose operands are the first ones of a later concat, each with the last such one."""
    concats = [b for b in bindings if operator_of(b.value) == _CONCAT]
    lists = [
        list(b.value.args[0]) if isinstance(b.value.args[0], relax.Tuple) else [] for b in concats
    ]
    for number, (binding, own) in enumerate(zip(concats, lists, strict=True)):
        axis = int(binding.value.attrs.axis)
        for later in reversed(range(number + 1, len(concats))):
            is_longer = len(lists[later]) > len(own) > 0
            first = zip(own, lists[later], strict=False)
            is_same_axis = int(concats[later].value.attrs.axis) == axis
            if is_longer and is_same_axis and all(a.same_as(b) for a, b in first):
                place = axis % len(binding.var.ty.shape)
                end = int(binding.var.ty.shape[place])
                yield _slice(binding.var, concats[later].var, place, 0, end)
                break


def _slice(source: relax.Var, result: relax.Var, axis: int, begin: int, end: int) -> Copy:
    def undo(copy: relax.Expr) -> relax.Expr:
        return R.strided_slice(copy, [axis], [begin], [end])

    return Copy(source, result, undo, axis == _CHANNELS)


def _axes(call: relax.Call) -> list[int]:
    rank = len(call.args[0].ty.shape)
    given = call.attrs.axes
    return [int(axis) % rank for axis in given] if given else list(range(rank))[::-1]
