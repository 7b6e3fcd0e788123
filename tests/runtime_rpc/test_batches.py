"""What a caller feeds is fitted to the step, or refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odtc.core.errors import DataError
from odtc.core.specs import Argument, Classes, Role, TensorSpec
from odtc.runtime_rpc.batches import fitted, fitted_argument, named_arrays, padded_batches

SPEC = TensorSpec("label", (3,), "int32")
LABEL = Argument(Role.LABEL, SPEC, Classes(10))


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64, np.uint8])
def test_labels_of_all_classes_are_taken(dtype: type) -> None:
    found = fitted_argument(np.array([0, 4, 9], dtype), LABEL)
    assert found.dtype == np.int32
    assert found.tolist() == [0, 4, 9]


# One past the last class would be read past the end of a row of logits.
@pytest.mark.parametrize("wrong", [-1, 10, 2**33])
def test_labels_just_outside_are_refused(wrong: int) -> None:
    with pytest.raises(DataError) as failure:
        fitted_argument(np.array([0, wrong, 9], np.int64), LABEL)
    assert f"label {wrong} is outside [0, 10)" in str(failure.value)
    assert "sample 1" in str(failure.value)


@pytest.mark.parametrize("wrong", [-1, -99, 10])
def test_of_the_others_only_the_ignored_label_is_taken(wrong: int) -> None:
    label = Argument(Role.LABEL, SPEC, Classes(10, ignored=-100))
    assert fitted_argument(np.array([0, -100, 9]), label).tolist() == [0, -100, 9]
    with pytest.raises(DataError) as failure:
        fitted_argument(np.array([-100, 0, wrong]), label)
    assert f"label {wrong} is outside [0, 10) and is not -100" in str(failure.value)


def test_a_wrong_label_is_told_by_its_sample() -> None:
    label = Argument(Role.LABEL, TensorSpec("tokens", (2, 3), "int32"), Classes(5, axis=2))
    with pytest.raises(DataError, match="label 5 is outside") as failure:
        fitted_argument(np.array([[0, 1, 2], [3, 5, 6]]), label)
    assert failure.value.where == "tokens, sample 1"


def test_float_labels_have_the_shape_of_the_output() -> None:
    label = Argument(Role.LABEL, TensorSpec("label", (3, 1)))
    assert fitted_argument(np.array([[1], [2], [3]]), label).dtype == np.float32
    # PyTorch would broadcast these against each other.
    with pytest.raises(DataError, match=r"label has shape \[3\]; the step takes \[3, 1\]"):
        fitted_argument(np.ones(3, np.float32), label)


def test_several_labels_are_told_apart_by_name() -> None:
    one, two = np.zeros(3), np.ones(3)
    assert named_arrays({"b": two, "a": one}, ["a", "b"], "label")["a"] is one
    with pytest.raises(DataError, match="2 labels, and one array"):
        named_arrays(one, ["a", "b"], "label")
    with pytest.raises(DataError, match="the labels fed are none"):
        named_arrays({}, ["label"], "label")


def test_float64_is_rounded_and_strings_are_refused() -> None:
    spec = TensorSpec("x", (2,))
    assert fitted(np.array([0.1, 0.2]), spec).dtype == np.float32
    with pytest.raises(DataError):
        fitted(np.array(["a", "b"]), spec)


@given(total=st.integers(1, 50), batch=st.integers(1, 9))
def test_padded_batches_hold_every_sample_once(total: int, batch: int) -> None:
    x = np.arange(1, total + 1)
    parts = list(padded_batches({"x": x}, batch))
    assert all(len(part["x"]) == batch for part, _ in parts)
    assert np.concatenate([part["x"][:length] for part, length in parts]).tolist() == x.tolist()
    assert all(not part["x"][length:].any() for part, length in parts)
