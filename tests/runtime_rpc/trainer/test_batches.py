"""Fed values are fitted to the step or refused."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odtc.core.errors import DataError
from odtc.core.ir.place import Place, join, take
from odtc.core.specs import Argument, Classes, Role, TensorSpec
from odtc.runtime_rpc.feed.batches import (
    check_bound,
    count_samples,
    fitted,
    fitted_argument,
    named_arrays,
    padded_batches,
)

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


def test_a_label_of_a_loss_in_the_model_is_ignored_by_the_model_alone() -> None:
    """An option would put another loss in its place."""
    inside = Argument(Role.INPUT, SPEC, Classes(10))
    for item, how in ((LABEL, "compile with --loss"), (inside, "export the model with ignore_ind")):
        with pytest.raises(DataError, match=how) as failure:
            fitted_argument(np.array([0, -100, 9]), item)
        assert ("--loss" in str(failure.value)) == (item is LABEL)


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
    with pytest.raises(DataError, match="no labels are fed"):
        named_arrays({}, ["label"], "label")


def test_float64_is_rounded_and_strings_are_refused() -> None:
    spec = TensorSpec("x", (2,))
    assert fitted(np.array([0.1, 0.2]), spec).dtype == np.float32
    with pytest.raises(DataError):
        fitted(np.array(["a", "b"]), spec)


@given(total=st.integers(1, 50), batch=st.integers(1, 9))
def test_padded_batches_hold_every_sample_once(total: int, batch: int) -> None:
    shared = Argument(Role.INPUT, TensorSpec("rate", ()))
    # Two entries a sample along axis 1, and the same again after all samples.
    item = Argument(Role.INPUT, TensorSpec("x", (3, 4 * batch)), place=Place(1, 2, 2))
    x = np.arange(1, 12 * total + 1).reshape(3, 2, total, 2)
    fed = {item: x.reshape(3, -1), shared: np.float32(7)}
    parts = list(padded_batches(fed, [batch]))
    assert all(part[item].shape == item.spec.shape for part, *_ in parts)
    assert all(part[shared] == 7 for part, *_ in parts)
    whole = [part[item].reshape(3, 2, batch, 2) for part, *_ in parts]
    lengths = [length for _, _, length in parts]
    kept = [array[:, :, :length] for array, length in zip(whole, lengths, strict=True)]
    np.testing.assert_array_equal(np.concatenate(kept, 2), x)
    for array, length in zip(whole, lengths, strict=True):
        assert (array[:, :, length:] == array[:, :, length - 1 : length]).all()
    cut = [take(part[item], Place(1, 2, 2), slice(n)) for part, _, n in parts]
    np.testing.assert_array_equal(join(cut, Place(1, 2, 2)), x.reshape(3, -1))


def test_samples_are_counted_where_they_lie() -> None:
    x = Argument(Role.INPUT, TensorSpec("x", (2, 5)), place=Place(0))
    state = Argument(Role.INPUT, TensorSpec("h", (3, 2)), place=Place(1))
    assert count_samples({x: np.ones((4, 5)), state: np.ones((3, 4))}) == 4
    with pytest.raises(DataError, match="x 3, h 4 along axis 1"):
        count_samples({x: np.ones((3, 5)), state: np.ones((3, 4))})
    with pytest.raises(DataError, match="its samples lie along axis 1"):
        count_samples({state: np.ones(3)})
    with pytest.raises(DataError, match="or none: x 0"):
        count_samples({x: np.ones((0, 5))})


def test_scalars_stay_scalars_and_bound_inputs_keep_their_values() -> None:
    assert fitted(np.asarray(0.5), TensorSpec("rate", ())).shape == ()
    check_bound({"sr": 16000, "unread": 3}, {"sr": 16000, "unread": None})
    check_bound(np.ones(3), {"sr": 16000})
    with pytest.raises(DataError, match="is not the 16000"):
        check_bound({"sr": np.array([8000])}, {"sr": 16000})


TEXTS = {
    "a batch of a loader": ["one text", "another"],
    "the first of a batch of two": "one text",
    "by name": {"input_ids": ("one text", "another"), "attention_mask": np.ones((2, 4))},
}


@pytest.mark.parametrize("form", TEXTS)
@pytest.mark.parametrize("names", [["input_ids"], ["input_ids", "attention_mask"]])
def test_texts_for_an_input_are_called_texts(form: str, names: list[str]) -> None:
    """They were called one array of two, or one of another shape."""
    with pytest.raises(DataError, match=r"text was fed, such as '.+', but") as failure:
        named_arrays(TEXTS[form], names)
    assert "tokenizer=" in str(failure.value.hint)


def test_texts_may_be_labels() -> None:
    assert named_arrays(["cat", "dog"], ["label"], "label")["label"].tolist() == ["cat", "dog"]


TOKENS = Argument(Role.INPUT, TensorSpec("input_ids", (1, 3), "int64"), rows=50_000)


def test_indices_that_count_from_the_end_are_told_and_taken() -> None:
    """-100 is no token, and is within a vocabulary."""
    said = "input_ids has indices below 0, which count from the end: -1 is row 49999"
    with pytest.warns(UserWarning, match=said):
        found = fitted_argument(np.array([[5, 7, -100]]), TOKENS)
    assert found.tolist() == [[5, 7, -100]]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted_argument(np.array([[5, 7, 0]]), TOKENS)
