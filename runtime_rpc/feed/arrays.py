"""Makes arrays of what callers feed: arrays, lists of numbers, tensors of PyTorch."""

from typing import Any

import numpy as np

from odtc.core.errors import DataError
from odtc.core.options.caller_warning import warn_caller
from odtc.core.printable import printable

_NUMBERS = "biufc"
_BFLOAT16 = "bfloat16"
_MOST_WHOLE = 2.0**53
# In the attributes of a DataFrame that was made of another table.
_GIVEN = "odtc.given"

THE_FRAME = "the DataFrame"
"""What a table of pandas is called in messages."""


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
            f"{type(value).__name__} is not an array: {str(error).splitlines()[0]}",
            where=where,
            hint="feed one dense array of numbers; a pair of x and y as step(x, y, lr=...)",
        ) from error
    if array.dtype.kind == "U" and isinstance(value, list | tuple) and array.ndim == 1:
        # Beside texts NumPy makes a text of anything: of a NaN the class "nan".
        array = array if all(isinstance(e, str) for e in value) else np.asarray(value, object)
    if array.dtype.kind not in _NUMBERS and array.dtype.name != _BFLOAT16 and array.ndim == 0:
        raise DataError(
            f"{type(value).__name__} is not an array of numbers",
            where=where,
            hint="feed a NumPy array or a PyTorch tensor",
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
            found = np.asarray(array, wanted, order="C")
    except FloatingPointError as error:
        largest = np.abs(array[np.isfinite(array)]).max()
        raise DataError(
            f"numbers of up to {largest:.3g} do not fit {dtype}",
            where=where,
            hint=f"scale them: {dtype} ends at {float(np.finfo(wanted).max):.3g}",
        ) from error
    if said := _rounded(array, found):
        warn_caller(f"{where}: {said}")
    return found


def _rounded(array: np.ndarray, found: np.ndarray) -> str:
    """What is said of whole numbers that a smaller type has not; the same text for each batch.

    Of floats these are integers that came beside others, as in a table.
    """
    if array.dtype.kind not in "iuf" or found.dtype.kind != "f" or not array.size:
        return ""
    if array.dtype.itemsize <= found.dtype.itemsize and array.dtype.kind == "f":
        return ""
    most = 2 ** (np.finfo(found.dtype).nmant + 1)
    with np.errstate(all="ignore"):
        if not (array.max() > most or array.min() < -most):
            return ""
        wrong = found.astype(array.dtype) != array
        if array.dtype.kind == "f":
            # Beyond these no float has a fraction.
            wrong &= (np.abs(array) < _MOST_WHOLE) & (array == np.rint(array))
    if not wrong.any():
        return ""
    return (
        f"whole numbers beyond {most:,} are rounded to {found.dtype}, so that neighbours become "
        "one: number what is an id from 0, and scale what is an amount"
    )


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


def marked(frame: Any, table: Any) -> Any:
    """A DataFrame that says of which table, of another library, it was made."""
    library = {"pyarrow": "Arrow"}.get(name := type(table).__module__.partition(".")[0], name)
    return marked_as(frame, f"the {type(table).__name__} of {library}")


def marked_as(frame: Any, name: str) -> Any:
    """A DataFrame that is called so in messages."""
    frame.attrs = {**frame.attrs, _GIVEN: name}
    return frame


def called(frame: Any) -> str:
    """What a DataFrame is called in messages: by what the user gave."""
    return getattr(frame, "attrs", {}).get(_GIVEN, THE_FRAME)


def inferred(frame: Any) -> Any:
    """The frame, its columns of objects that hold numbers alone as such."""
    has_objects = any(getattr(each, "kind", "O") == "O" for each in frame.dtypes)
    return frame.infer_objects() if has_objects else frame


def is_numbers(column: Any) -> bool:
    """Whether a column of a DataFrame holds numbers; those of types of pandas may be empty."""
    kind = getattr(column.dtype, "kind", "O")
    return kind in _NUMBERS or np.asarray(column).dtype.kind in _NUMBERS


def _numbers_of(frame: Any, where: str) -> np.ndarray:
    """The rows of a DataFrame; NumPy makes objects of numbers beside truth values."""
    frame = inferred(frame)
    columns = [frame.iloc[:, number] for number in range(len(frame.columns))]
    words = [str(each.name) for each in columns if not is_numbers(each)]
    if words and len(words) < len(columns):
        raise no_numbers(frame, words[0], where)
    array = np.asarray(frame)
    if words or array.dtype != object:
        return array
    # Of types of pandas whose cells may be empty.
    return frame.to_numpy(np.float64, na_value=np.nan)


def no_numbers(frame: Any, column: str, where: str, cell: str = "") -> DataError:
    """The error of a column of a DataFrame that holds something else, such as a cell."""
    is_own = called(frame) == THE_FRAME
    how = ", as pandas.get_dummies does," if is_own else ","
    drop = ": frame.drop(columns=NAME)" if is_own else ""
    return DataError(
        f"the column {printable(column)} of {called(frame)} holds no numbers{cell}",
        where=where,
        hint=f"give words numbers{how} or leave the column out{drop}",
    )


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
