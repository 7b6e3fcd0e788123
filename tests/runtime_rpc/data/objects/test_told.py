"""What is not taken of batches and arrays by name, and of a pass, is told."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import odtc
from tests.runtime_rpc.loop.models import BATCH, classed, step_of

X, Y = classed(19)


@pytest.fixture(scope="module")
def trainer(tmp_path_factory: pytest.TempPathFactory) -> odtc.Trainer:
    return step_of(tmp_path_factory.mktemp("told"), "cross-entropy").trainer(threads=1)


def parts() -> Iterator[tuple[np.ndarray, np.ndarray]]:
    for start in range(0, len(X), 5):
        yield X[start : start + 5], Y[start : start + 5]


@pytest.mark.parametrize(("epochs", "left"), [(1, 3), (2, 6)])
def test_samples_of_a_loader_that_fill_no_batch(trainer: odtc.Trainer, epochs: int, left: int):
    said = f"the last {left} samples of the last epoch fill no batch of {BATCH}: no step takes them"
    with pytest.warns(UserWarning, match=said):
        trainer.fit([*parts()], lr=0.1, epochs=epochs)


def test_samples_of_a_generator_that_ends_early(trainer: odtc.Trainer):
    with pytest.warns(UserWarning, match="the last 3 samples of the last epoch fill no batch"):
        trainer.fit(parts(), lr=0.1)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"input": X, "label": Y, "weight": Y},
            "not read, as they are neither inputs nor labels: w",
        ),
        ([{"input": X, "weight": Y}], "not taken, as they are neither inputs nor labels: weight"),
    ],
)
def test_arrays_that_are_not_taken(trainer: odtc.Trainer, given: Any, said: str):
    call = trainer.predict if isinstance(given, list) else lambda it: trainer.fit(it, lr=0.1)
    with pytest.warns(UserWarning, match=said) as told:
        call(given)
    assert sum("weight" in str(each.message) for each in told) == 1
