"""What arrays of samples are taken as, and what is said of them."""

from typing import Any

import numpy as np
import pytest

from odtc.core.errors import DataError
from odtc.core.ir.place import Place
from odtc.core.specs import Argument, Classes, Role, TensorSpec
from odtc.runtime_rpc.data.fitting import said
from odtc.runtime_rpc.data.samples import Samples, samples_in
from odtc.runtime_rpc.data.wanted import Wanted

N = 12


def argument(role: Role, shape: tuple[int, ...], classes: int = 0) -> Argument:
    spec = TensorSpec(str(role), (4, *shape), "int32" if classes else "float32")
    return Argument(role, spec, Classes(classes) if classes else None, place=Place(0))


CLASS = argument(Role.LABEL, (), 3)
NUMBER = argument(Role.LABEL, (1,))
ROWS = argument(Role.INPUT, (6,))
IMAGES = argument(Role.INPUT, (1, 5, 4))
Y = np.arange(N) % 3


def read(x: Any, y: Any, item: Argument = ROWS, label: Argument = CLASS, known: Any = ()):
    arrays = {"x": np.asarray(x), "y": np.asarray(y)}
    return samples_in(arrays, ["x", "y"], Wanted([item], [label], class_names=known), "d")


X = np.random.default_rng(0).random((N, 6), np.float32)
FLOATS = Y.astype(np.float32)


@pytest.mark.parametrize(
    ("label", "y", "note"),
    [
        (CLASS, Y, ""),
        (CLASS, Y[:, None], "d: label has shape [12, 1], and is taken as [12]"),
        (NUMBER, FLOATS, "d: label has shape [12], and is taken as [12, 1]"),
        (NUMBER, FLOATS[:, None], ""),
        (CLASS, FLOATS, "d: label is float32, of whole numbers: they are taken as classes"),
        (CLASS, np.array(["a", "b", "c"])[Y], "d: classes are 0 a, 1 b, 2 c"),
        (CLASS, np.array(["a", "b", "c"], object)[Y], "d: classes are 0 a, 1 b, 2 c"),
    ],
)
def test_labels_are_taken_as_what_they_can_only_be(label: Argument, y: np.ndarray, note: str):
    found = read(X, y, label=label)
    assert found.notes == ((note,) if note else ())
    np.testing.assert_array_equal(found.labels["label"].reshape(-1), Y)
    assert found.labels["label"].shape == (N, *label.spec.shape[1:])


def test_truth_values_are_two_classes():
    label = argument(Role.LABEL, (), 2)
    found = read(X, Y > 0, label=label)
    assert found.notes == ("d: label holds truth values: false is class 0, true is class 1",)
    np.testing.assert_array_equal(found.labels["label"], Y > 0)


@pytest.mark.parametrize("shape", [(N, 5, 4), (N, 5, 4, 1), (N, 1, 5, 4)])
def test_images_of_one_channel_may_lack_its_axis(shape: tuple[int, ...]):
    x = np.random.default_rng(0).random((N, 5, 4), np.float32)
    found = read(x.reshape(shape), Y, IMAGES)
    np.testing.assert_array_equal(found.inputs["input"][:, 0], x)
    assert bool(found.notes) == (shape != (N, 1, 5, 4))


WRONG = {
    "other axes": (lambda: read(np.zeros((N, 4, 5), np.float32), Y, IMAGES), r"\[12, 4, 5\]; the"),
    "fractions": (lambda: read(X, FLOATS + 0.5), "labels are float32; they must be integers"),
    "no number": (lambda: read(X, np.full(N, np.nan)), "labels are float64; they must be integers"),
    "above": (lambda: read(X, FLOATS + 1), r"label 3 is outside \[0, 3\)"),
    "below": (lambda: read(X, Y - 1), r"label -1 is outside \[0, 3\)"),
    "too few names": (
        lambda: read(X, np.array(["a", "b"])[Y % 2]),
        "label has the names a, b, 2 in all; the step has 3 classes",
    ),
    "names for numbers": (
        lambda: read(X, np.array(["a", "b", "c"])[Y], label=NUMBER),
        "label holds texts, such as 'a'; the loss compares with numbers",
    ),
    "numbers as texts": (
        lambda: read(X, Y.astype(str)),
        "label holds numbers as texts, such as '0'",
    ),
    "no samples": (lambda: read(X[:0], Y[:0]), "different numbers of samples, or none"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_with_arrays_is_said(name: str):
    call, message = WRONG[name]
    with pytest.raises(DataError, match=message):
        call()


def test_numbers_that_are_not_finite_are_said_before_a_step_takes_them():
    x, y = X.copy(), FLOATS.copy()
    x[3, 2], x[7, 1], y[5] = np.inf, np.nan, np.nan
    found: Samples = read(x, y[:, None], label=NUMBER)
    assert found.notes == (
        "d: 2 of 72 numbers of input are not finite, the first is inf in sample 3: a loss over "
        "them is none",
        "d: 1 of 12 numbers of label are not finite, the first is nan in sample 5: a loss over "
        "them is none",
    )


def test_classes_that_are_rare_are_said_of_samples_that_are_trained():
    assert read(X, Y).notes_of_training == ()
    found = read(X, np.arange(N) // 11)
    assert found.notes == ()
    assert found.notes_of_training == (
        "d: no sample is of class 2: the model cannot learn it from these",
        "d: 11 of 12 samples are of class 0: who always says 0 has an accuracy of 92%; the metric "
        "f1 counts all classes alike",
    )


@pytest.mark.parametrize("order", ["C", "F"])
def test_the_first_of_them_is_found_in_any_part(monkeypatch: pytest.MonkeyPatch, order: Any):
    monkeypatch.setattr(said, "_PIECE", 13)
    x = np.array(X, order=order)
    x[7, 1] = x[8, 5] = np.nan
    assert read(x, Y).notes == (
        "d: 2 of 72 numbers of input are not finite, the first is nan in sample 7: a loss over "
        "them is none",
    )
