"""Early stopping ends a run where Keras's does: each case is as Keras 3.15 stopped."""

from pathlib import Path

import numpy as np
import pytest

import odtc
from tests.runtime_rpc.loop.models import classed, step_of


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> odtc.Artifact:
    return step_of(tmp_path_factory.mktemp("stopping"), "cross-entropy")


# Values of a validation, patience, min_delta, mode; the last epoch, and the best by min_delta.
KERAS = [
    ([1, 0.5, 0.25, 0.375, 0.5, 0.625], 2, 0, "min", 5, 3),
    ([1, 0.5, 0.5, 0.5], 2, 0, "min", 4, 2),
    ([1, 0.875, 0.75, 0.625, 0.5], 2, 0.25, "min", 3, 1),
    ([1, 0.75, 0.5, 0.25], 1, 0.25, "min", 2, 1),
    ([0, 0.5, 0.25, 0.625, 0.5, 0.5], 2, 0, "max", 6, 4),
    ([0, 0.25, 0.5, 0.625, 0.625], 2, 0.25, "max", 5, 3),
    ([0.5, 1, 0.75, 0.25, 0.5, 0.75, 0.125], 2, 0, "min", 3, 1),
    ([0.5, 0.25], 1, 0, "min", 2, 2),
    ([0.5, 0.75, 0.25], 1, 0, "min", 2, 1),
]


@pytest.mark.parametrize(("values", "patience", "min_delta", "mode", "last", "best"), KERAS)
def test_a_run_ends_where_that_of_keras_does(
    artifact: odtc.Artifact,
    values: list[float],
    patience: int,
    min_delta: float,
    mode: str,
    last: int,
    best: int,
):
    left = [float(value) for value in values]

    def drawn(outputs: np.ndarray, labels: np.ndarray) -> float:
        return left.pop(0)

    stopping = odtc.EarlyStopping("val_drawn", patience, min_delta, mode)
    history = artifact.trainer(threads=1).fit(
        classed(16),
        lr=0.1,
        epochs=len(values),
        validation=classed(16, seed=1),
        metrics=[drawn],
        callbacks=[stopping],
    )
    assert len(history) == last
    is_stopped = last - best == patience
    told = f"val_drawn is no better than {values[best - 1]:.4g} at step {2 * best} for {patience}"
    assert history.stopped.startswith(told) == is_stopped


def test_the_best_checkpoint_is_of_the_best_of_all(artifact: odtc.Artifact, tmp_path: Path):
    """Also where it is better by less than min_delta, where Keras goes back further."""
    left = [1.0, 0.875, 0.75, 0.5]

    def drawn(outputs: np.ndarray, labels: np.ndarray) -> float:
        return left.pop(0)

    trainer = artifact.trainer(threads=1)
    best = odtc.BestCheckpoint(tmp_path / "b.ckpt", "val_drawn", "min", restore=True)
    history = trainer.fit(
        classed(16),
        lr=0.1,
        epochs=4,
        validation=classed(16, seed=1),
        metrics=[drawn],
        callbacks=[odtc.EarlyStopping("val_drawn", 2, 0.25, "min"), best],
    )
    assert len(history) == 3
    assert trainer.steps == 6
