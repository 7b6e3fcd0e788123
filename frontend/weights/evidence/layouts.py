"""Tells tensors that are a parameter laid out anew from those that were computed from one.

All that a file says of a folded tensor are the names of the values that went into it:

    unsqueeze_1   of   m, unsqueeze, val_0, val_1         m[:, None, None]
    unsqueeze_1   of   m, exp, unsqueeze, val_0, val_1    m.exp()[:, None, None]

A value has the name of the call that it is the result of, or is `val_N` inside of one: sizes,
mostly. So every call on the way is known, though neither its arguments nor their order. Calls that
are in no table here may have changed elements, left some out or repeated some; `detach` stops the
gradient.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from odtc.frontend.weights.exporters.torch_metadata import Call

_NAME = re.compile(r"(?P<call>\w+?)(_\d+)?")
_INSIDE = re.compile(r"val_\d+")
_SAME = frozenset({"alias", "clone", "contiguous"})
_VIEWS = frozenset({"view", "reshape", "_unsafe_view"})
_TURNS = frozenset({"t", "transpose", "permute"})
_MORE_AXES, _REPEATS, _EXP = "unsqueeze", "expand", "exp"
# A cast that changes nothing is dropped; what it was folded into is not told from a rounded tensor.
_DROPPED = _SAME | {"_to_copy", "to"}
_LINEAR = "torch.ops.aten.linear.default"
# Calls that lay out the row of numbers that they read, inside of them; others may compute.
_OF_ROWS = frozenset(
    f"torch.ops.aten.{name}.default"
    for name in ("prelu", "_prelu_kernel", "group_norm", "native_group_norm")
)


def is_exp(folded: str) -> bool:
    """Whether the name of a folded tensor says that it is the exponential of another."""
    return _call(folded) == _EXP


def keeps_elements(names: Iterable[str]) -> bool:
    """Whether values of these names have the elements of what they were made from."""
    return {_call(name) for name in names} <= _DROPPED | _VIEWS | _TURNS | {_MORE_AXES, _REPEATS}


def form_of(
    folded: str, through: Sequence[str], value: np.ndarray, call: Call, *, is_weight: bool
) -> tuple[str, np.ndarray | None]:
    """The operator that makes a folded tensor of a parameter, and that parameter.

    Args:
        folded: name of the tensor.
        through: names of all that went into it, but for the parameter.
        value: its elements.
        call: that reads it.
        is_weight: whether it is the matrix of a product.

    Returns:
        Transpose, Exp, Reshape or Expand; None as the parameter where the file does not show that
        the tensor is one of these, of all elements in their order.
    """
    own = "" if _INSIDE.fullmatch(folded) else _call(folded)
    calls = Counter(_call(name) for name in through if not _INSIDE.fullmatch(name))
    for name in _SAME:
        del calls[name]
    if not own:
        return _inside(calls, value, call, is_weight=is_weight)
    if own == _EXP:
        is_own = not calls and bool((value > 0).all())
        return "Exp", np.log(value) if is_own else None
    if own == "t" and value.ndim == 2 and not calls:
        return "Transpose", value.T
    if own == _REPEATS and not calls:
        return _repeated(value)
    calls[own] += own not in _SAME
    return "Reshape", value.ravel() if _is_row(value) and _was_row(+calls, value.ndim) else None


def _call(name: str) -> str:
    found = _NAME.fullmatch(name)
    return found["call"] if found else name


def _inside(
    calls: Counter[str], value: np.ndarray, call: Call, *, is_weight: bool
) -> tuple[str, np.ndarray | None]:
    """A tensor that was made inside of the call that reads it."""
    if is_weight and call.target == _LINEAR and value.ndim == 2:
        return "Transpose", None if calls else value.T
    is_row = call.target in _OF_ROWS and _is_row(value) and not calls
    return "Reshape", value.ravel() if is_row else None


def _was_row(calls: Counter[str], axes: int) -> bool:
    """Whether these calls made a tensor of as many axes of a row, in its order.

    A view may have been of more axes than one: then its elements are in order, and nothing tells
    its sizes. After a turned tensor they may be in another order.
    """
    names = calls.keys() - {_MORE_AXES}
    if names and names <= _VIEWS:
        return True
    return names <= _TURNS and axes - calls[_MORE_AXES] == 1


def _is_row(value: np.ndarray) -> bool:
    return value.ndim > 1 and sum(size != 1 for size in value.shape) == 1


def _repeated(value: np.ndarray) -> tuple[str, np.ndarray | None]:
    """The part that was repeated along the first axis alone, or one number in all places."""
    along = [axis for axis, size in enumerate(value.shape) if size > 1 and _is_alike(value, axis)]
    is_full = bool(value.size) and bool((value == value.flat[0]).all())
    is_first = along[:1] == [0] and (len(along) == 1 or is_full)
    return "Expand", value[:1] if is_first and value.ndim > 1 and not _is_row(value) else None


def _is_alike(value: np.ndarray, axis: int) -> bool:
    return bool((value == value.take([0], axis)).all())
