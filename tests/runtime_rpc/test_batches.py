"""What a caller feeds is fitted to the step, or refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odtc.core.errors import DataError
from odtc.core.specs import TensorSpec
from odtc.runtime_rpc.batches import fitted, fitted_labels, padded_batches

LABEL = TensorSpec("label", (3,), "int32")


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64, np.uint8])
def test_labels_of_all_classes_are_taken(dtype: type) -> None:
    found = fitted_labels(np.array([0, 4, 9], dtype), LABEL, 10)
    assert found.dtype == np.int32
    assert found.tolist() == [0, 4, 9]


# One past the last class would be read past the end of a row of logits.
@pytest.mark.parametrize("wrong", [-1, 10, 2**33])
def test_labels_just_outside_are_refused(wrong: int) -> None:
    with pytest.raises(DataError) as failure:
        fitted_labels(np.array([0, wrong, 9], np.int64), LABEL, 10)
    assert f"label {wrong} is outside [0, 10)" in str(failure.value)
    assert "sample 1" in str(failure.value)


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
