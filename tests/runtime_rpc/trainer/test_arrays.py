"""Whatever callers feed becomes arrays or is refused."""

import warnings
from typing import Any

import ml_dtypes
import numpy as np
import pandas
import pytest
import torch

from odtc.core.errors import DataError
from odtc.runtime_rpc.feed.arrays import as_array, cast

X = np.arange(6, dtype=np.float32).reshape(2, 3)
T = torch.from_numpy(X)
FRAME = pandas.DataFrame(X, columns=["a", "b", "c"])

TAKEN = {
    "an array": X,
    "not contiguous": np.asfortranarray(X),
    "lists": X.tolist(),
    "a list of rows": list(X),
    "a tensor": T,
    "one that needs a gradient": T.clone().requires_grad_(),
    "a parameter": torch.nn.Parameter(T.clone()),
    "a list of those": list(T.clone().requires_grad_()),
    "lists of numbers that need one": [list(row) for row in T.clone().requires_grad_()],
    "bfloat16": T.bfloat16(),
    "half": T.half(),
    "negated in place": torch._neg_view(-T),  # pyright: ignore[reportPrivateImportUsage]
    "transposed": T.t().contiguous().t(),
    "bfloat16 of NumPy": X.astype(ml_dtypes.bfloat16),
    "a frame": FRAME,
    "a frame of several types": FRAME.astype({"a": "int64", "b": "Int16", "c": "float64"}),
    "a mask of nothing": np.ma.masked_array(X, mask=False),
}


@pytest.mark.parametrize("form", TAKEN)
def test_taken(form: str) -> None:
    np.testing.assert_array_equal(as_array(TAKEN[form], "x").astype(np.float32), X)


def test_frames_of_truth_values_and_empty_cells_are_numbers() -> None:
    """As read_csv makes them; NumPy has objects of the first, and pandas.NA in the second."""
    frame = FRAME.assign(b=[True, False], c=pandas.array([1, None], "Int64"))
    found = as_array(frame, "x")
    np.testing.assert_array_equal(found, np.array([[0, 1, 1], [3, 0, np.nan]]))
    names = as_array(pandas.DataFrame({"y": ["good", "bad"]}), "label")
    assert names.tolist() == [["good"], ["bad"]]


REFUSED: dict[str, tuple[Any, str]] = {
    "a sparse tensor": (T.to_sparse(), "Tensor is not an array"),
    "one without elements": (T.to("meta"), "Tensor is not an array"),
    "rows of other lengths": ([[1, 2], [3]], "list is not an array"),
    "a pair": ((X, X[0]), "tuple is not an array"),
    "nothing": (None, "NoneType is not an array of numbers"),
    "a word": ("x", "str is not an array of numbers"),
    "a generator": (iter([1]), "list_iterator is not an array of numbers"),
    "a frame with words": (
        FRAME.assign(b=["x", "y"]),
        "the column b of the DataFrame holds",
    ),
    "a masked array": (np.ma.masked_array(X, mask=X > 3), "elements that are missing"),
}


@pytest.mark.parametrize("form", REFUSED)
def test_refused(form: str) -> None:
    value, said = REFUSED[form]
    with pytest.raises(DataError, match=said) as failure:
        as_array(value, "input x")
    assert failure.value.where == "input x"
    assert failure.value.hint


@pytest.mark.parametrize(
    ("array", "dtype"),
    [
        (np.array([1e300, 1.0]), "float32"),
        (np.array([7e4], np.float32), "float16"),
        (np.array([0, 2**31]), "int32"),
        (np.array([-129]), "int8"),
        (np.array([-1], np.int64), "uint8"),
        (np.array([2**63], np.uint64), "int64"),
    ],
)
def test_numbers_that_a_type_does_not_have_are_refused(array: np.ndarray, dtype: str) -> None:
    with pytest.raises(DataError, match=f"do not fit {dtype}"):
        cast(array, dtype, "x")


@pytest.mark.parametrize(
    ("array", "dtype"),
    [
        (np.array([np.inf, np.nan, 1e38]), "float32"),
        (np.array([2**31 - 1, -(2**31)]), "int32"),
        (np.zeros((0, 3), np.int64), "int32"),
        (np.array(0.5), "float32"),
        (np.array([1e-300]), "float32"),
    ],
)
def test_numbers_that_it_has_are_cast(array: np.ndarray, dtype: str) -> None:
    found = cast(array, dtype, "x")
    assert (found.dtype, found.shape) == (np.dtype(dtype), array.shape)
    np.testing.assert_array_equal(found, array.astype(dtype))


@pytest.mark.parametrize(
    ("array", "dtype", "is_said"),
    [
        (np.array([1, 2**24 + 1]), "float32", True),
        (np.array([-(2**24) - 1, 0]), "float32", True),
        (np.array([2**24 + 1, 0.5]), "float32", True),
        (np.array([2**63 - 1]), "float32", True),
        (np.array([2049, 1], np.int16), "float16", True),
        # These numbers are there, and floats with fractions are rounded anyway.
        (np.array([2**24, -(2**24), 2**25, 2**40]), "float32", False),
        (np.array([2**24 + 1.25, 1e30, 0.1, np.nan]), "float32", False),
        (np.array([2**24 + 1, np.inf]), "float64", False),
        (np.array([2**24 + 1]), "int32", False),
        (np.array([True, False]), "float32", False),
    ],
)
def test_whole_numbers_that_are_rounded_are_said(array: np.ndarray, dtype: str, is_said: bool):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cast(array, dtype, "input x")
    said = [str(each.message) for each in caught]
    assert [each.startswith("input x: whole numbers beyond") for each in said] == [True] * is_said
