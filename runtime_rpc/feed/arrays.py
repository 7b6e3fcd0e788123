"""Makes arrays of what callers feed: arrays, lists of numbers, tensors of PyTorch."""

from typing import Any

import numpy as np

from odtc.core.errors import DataError
from odtc.core.printable import printable

_NUMBERS = "biufc"
_BFLOAT16 = "bfloat16"


def as_array(value: Any, where: str) -> np.ndarray:
    """Converts what a caller feeds to an array.

    A tensor of PyTorch is taken whatever its device, and detached: nothing flows back through a
    step. One of bfloat16 becomes float32, which has all of its numbers. The columns of a DataFrame
    may be numbers of several types, and truth values.

    Args:
        value: an array, a number, a tensor of PyTorch, or lists of them; or a DataFrame of pandas.
        where: what it is fed for, such as `input x`.

    Raises:
        DataError: it is not an array of numbers; it is sparse, or masked; it has no elements; a
            column is of words.
    """
    if type(value) is np.ndarray:
        return value
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise DataError(
            "a masked array has elements that are missing",
            where=where,
            hint="fill them: array.filled(0)",
        )
    try:
        array = _numbers_of(value, where) if is_frame(value) else np.asarray(_plain(value))
    except (TypeError, ValueError, RuntimeError, NotImplementedError) as error:
        raise DataError(
            f"{type(value).__name__} is no array: {str(error).splitlines()[0]}",
            where=where,
            hint="feed one dense array of numbers; a pair of x and y as step(x, y, lr=...)",
        ) from error
    if array.dtype.kind not in _NUMBERS and array.dtype.name != _BFLOAT16 and array.ndim == 0:
        raise DataError(
            f"{type(value).__name__} is not an array of numbers",
            where=where,
            hint="feed an array of NumPy or a tensor of PyTorch",
        )
    return array


def cast(array: np.ndarray, dtype: str, where: str) -> np.ndarray:
    """An array in another type of the same kind, in C order.

    Raises:
        DataError: it has numbers that this type has not: they would become infinite, or wrap round.
    """
    wanted = np.dtype(dtype)
    if array.size and _wraps(array, wanted):
        limits = np.iinfo(wanted)
        raise DataError(
            f"numbers from {array.min()} to {array.max()} do not fit {dtype}",
            where=where,
            hint=f"feed numbers in [{limits.min}, {limits.max}]",
        )
    try:
        with np.errstate(over="raise"):
            return np.asarray(array, wanted, order="C")
    except FloatingPointError as error:
        largest = np.abs(array[np.isfinite(array)]).max()
        raise DataError(
            f"numbers of up to {largest:.3g} do not fit {dtype}",
            where=where,
            hint=f"scale them: {dtype} ends at {float(np.finfo(wanted).max):.3g}",
        ) from error


def _wraps(array: np.ndarray, wanted: np.dtype) -> bool:
    """Whether integers are outside those of a smaller type."""
    if array.dtype.kind not in "iu" or wanted.kind not in "iu":
        return False
    if np.can_cast(array.dtype, wanted, "safe"):
        return False
    limits = np.iinfo(wanted)
    return int(array.min()) < limits.min or int(array.max()) > limits.max


def is_frame(value: Any) -> bool:
    """Whether it is a DataFrame of pandas, which need not be imported to know."""
    return hasattr(value, "iloc") and hasattr(value, "columns")


def _numbers_of(frame: Any, where: str) -> np.ndarray:
    """The rows of a DataFrame; NumPy makes objects of numbers beside truth values."""
    kinds = [getattr(each, "kind", "O") for each in frame.dtypes]
    words = [name for name, kind in zip(frame.columns, kinds, strict=True) if kind not in _NUMBERS]
    if words and len(words) < len(kinds):
        raise DataError(
            f"the column {printable(str(words[0]))} of the DataFrame holds no numbers",
            where=where,
            hint="give words numbers, as pandas.get_dummies does, or leave the column out: "
            "frame.drop(columns=NAME)",
        )
    array = np.asarray(frame)
    if words or array.dtype != object:
        return array
    # Of types of pandas whose cells may be empty.
    return frame.to_numpy(np.float64, na_value=np.nan)


def _plain(value: Any) -> Any:
    """The same with PyTorch's tensors, and those in lists or tuples, as arrays."""
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return _array_of(value) if _is_tensor(value) else value


def _is_tensor(value: Any) -> bool:
    """Whether it is a tensor of PyTorch, which need not be imported to know."""
    return hasattr(value, "resolve_conj") and hasattr(value, "detach")


def _array_of(tensor: Any) -> np.ndarray:
    dense = tensor.detach().cpu().resolve_conj().resolve_neg()
    return (dense.float() if str(dense.dtype).endswith(_BFLOAT16) else dense).numpy()
