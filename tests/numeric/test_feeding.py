"""Many steps by one call are the steps one by one, on each kind of device."""

import functools
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest

import odtc
from benchmarks.models.digits import digits_data, digits_model
from odtc.core.errors import DataError
from tests.fast import fast_if

TARGETS = ("host-cpu", "host-opencl", pytest.param("host-vulkan", marks=pytest.mark.slow))
BATCH, STEPS = 16, 5


@functools.cache
def compiled(target: str, micro_batches: int = 1) -> odtc.Artifact:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "m.onnx")
        onnx.save(digits_model(), path)
        return odtc.compile(path, target, batch=BATCH, micro_batches=micro_batches)


def batches() -> list[tuple[np.ndarray, np.ndarray]]:
    x, y, *_ = digits_data()
    cuts = [slice(k * BATCH, (k + 1) * BATCH) for k in range(STEPS)]
    return [(x[cut], y[cut]) for cut in cuts]


def schedule(updates: int) -> float:
    return 0.1 / (1 + updates)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("micro_batches", fast_if((2).__eq__, [1, 2]))
def test_the_same_bits(target: str, micro_batches: int) -> None:
    artifact = compiled(target, micro_batches)
    alone, together = artifact.trainer(), artifact.trainer()
    expected = [alone.step(x, y, schedule(alone.updates)) for x, y in batches()]
    losses, images = [], batches()[0][0]
    for loss in together.train(iter(batches()), schedule):
        losses.append(loss)
        # What was sent ahead is not touched by what else the trainer is asked for.
        together.evaluate(images)
    assert losses == expected
    assert together.steps == STEPS
    for name, value in alone.parameters().items():
        np.testing.assert_array_equal(together.parameters()[name], value)


@pytest.mark.parametrize("target", TARGETS)
def test_an_error_comes_when_its_turn_has_come(target: str) -> None:
    """Steps before a batch that does not fit, or cannot be made, are taken."""
    good, trainer = batches(), compiled(target).trainer()
    small = [*good[:2], (good[2][0][:3], good[2][1][:3])]
    losses = []
    with pytest.raises(DataError, match=r"shape \[3, 1, 8, 8\]"):
        losses.extend(loss for loss in trainer.train(small, 0.1))
    assert trainer.steps == 2

    def failing() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        yield good[2]
        raise OSError("the camera is gone")

    with pytest.raises(OSError, match="the camera is gone"):
        list(trainer.train(failing(), 0.1))
    assert trainer.steps == 3


@pytest.mark.parametrize("target", TARGETS[1:])
def test_a_gpu_has_the_next_batch_before_it_is_asked_for(target: str) -> None:
    """By the time that a loss is there the next batch has been made; on a CPU it has not."""
    trainer = compiled(target).trainer()
    made = 0

    def counted() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        nonlocal made
        for batch in batches():
            made += 1
            yield batch

    seen = [made for _ in trainer.train(counted(), 0.1)]
    assert seen == [2, 3, 4, 5, 5]
