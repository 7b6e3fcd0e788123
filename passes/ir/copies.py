"""Where the tensors of a graph are copied as a whole, and how to read them there."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from tvm import relax
from tvm.relax import op as R  # noqa: N812

from odtc.core.ir.relax_calls import operator_of
from odtc.dialect.images.copies import concat_last

# From a copy to the tensor that was copied, as Relax operators.
Undo = Callable[[relax.Expr], relax.Expr]

RESHAPE, _PERMUTE, _CONCAT = "relax.reshape", "relax.permute_dims", "relax.concat"
_COPYING = (RESHAPE, _PERMUTE, _CONCAT, concat_last.name)
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
    elif parts := _parts(value):
        axis = _axis(value)
        ends = list(accumulate(int(each.ty.shape[axis]) for each in parts))
        for each, begin, end in zip(parts, [0, *ends], ends, strict=False):
            if isinstance(each, relax.Var):
                yield _slice(each, result, axis, begin, end)


def _prefixes(bindings: Sequence[relax.Binding]) -> Iterator[Copy]:
    """Concats whose operands are the first ones of a later concat, each with the last such one."""
    concats = [b for b in bindings if operator_of(b.value) in (_CONCAT, concat_last.name)]
    lists = [_parts(b.value) for b in concats]
    for number, (binding, own) in enumerate(zip(concats, lists, strict=True)):
        axis = _axis(binding.value)
        for later in reversed(range(number + 1, len(concats))):
            is_longer = len(lists[later]) > len(own) > 0
            first = zip(own, lists[later], strict=False)
            is_same_axis = _axis(concats[later].value) == axis
            if is_longer and is_same_axis and all(a.same_as(b) for a, b in first):
                end = int(binding.var.ty.shape[axis])
                yield _slice(binding.var, concats[later].var, axis, 0, end)
                break


def _parts(concat: relax.Call) -> list[relax.Expr]:
    """The operands of a concat; none where that is one tuple."""
    if operator_of(concat) == concat_last.name:
        return list(concat.args)
    given = concat.args[0]
    return list(given) if isinstance(given, relax.Tuple) else []


def _axis(concat: relax.Call) -> int:
    """The axis along which a concat joins."""
    rank = len(concat.ty.shape)
    return rank - 1 if operator_of(concat) == concat_last.name else int(concat.attrs.axis) % rank


def _slice(source: relax.Var, result: relax.Var, axis: int, begin: int, end: int) -> Copy:
    def undo(copy: relax.Expr) -> relax.Expr:
        return R.strided_slice(copy, [axis], [begin], [end])

    return Copy(source, result, undo, axis == _CHANNELS)


def _axes(call: relax.Call) -> list[int]:
    rank = len(call.args[0].ty.shape)
    given = call.attrs.axes
    return [int(axis) % rank for axis in given] if given else list(range(rank))[::-1]
