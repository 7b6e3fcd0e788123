"""Misuse of a trainer's methods has a plain error; errors inside them are passed on."""

import numpy as np
import pytest
import torch

from odtc.core.errors import DataError, UsageError
from odtc.runtime_rpc.feed.calling import NO_RATE, learning_rate, pairs, plain_arguments


class Trainer:
    @plain_arguments
    def step(self, x: int, y: int = 0, lr: float = 0.1) -> float:
        """A step."""
        return x + y + lr + len(x) if x < 0 else x + y  # type: ignore[arg-type]


def test_other_arguments_are_a_usage_error() -> None:
    assert Trainer().step(1, 2) == 3
    assert Trainer.step.__doc__ == "A step."
    for call in (
        lambda it: it.step(),
        lambda it: it.step(1, 2, 3, 4),
        lambda it: it.step(1, 2, 3, lr=4),
        lambda it: it.step(1, learning_rate=3),
    ):
        with pytest.raises(UsageError, match="step does not take these arguments") as failure:
            call(Trainer())
        assert "call step(x, y, lr)" in str(failure.value)


def test_a_type_error_inside_stays_one() -> None:
    with pytest.raises(TypeError, match="has no len"):
        Trainer().step(-1)


@pytest.mark.parametrize(
    "rate", [0.1, np.float32(0.1), np.array(0.1), torch.tensor(0.1), 1, np.int64(1)]
)
def test_numbers_are_learning_rates(rate: object) -> None:
    assert learning_rate(rate) == pytest.approx(float(rate))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "rate", ["0.1", None, np.array([0.1]), torch.tensor([1]), lambda _: 0.1, [0.1], {"lr": 0.1}]
)
def test_other_things_are_none(rate: object) -> None:
    with pytest.raises(UsageError, match="not a number"):
        learning_rate(rate)


def test_a_rate_that_was_left_out_is_asked_for() -> None:
    with pytest.raises(DataError, match=r"no learning rate is given\n.*\n.*give one, such as"):
        learning_rate(NO_RATE)
    with pytest.raises(DataError, match="the learning rate nan is not a finite float32"):
        learning_rate(np.nan)


@pytest.mark.parametrize(
    "batches", [None, 3, [np.ones((2, 3))], [(1, 2, 3)], [{"x": 1, "y": 2}], (np.ones(4), 1)]
)
def test_batches_that_are_no_pairs(batches: object) -> None:
    with pytest.raises(UsageError):
        list(pairs(batches))  # type: ignore[arg-type]


def test_pairs_are_passed_on() -> None:
    assert list(pairs(iter([(1, 2), [3, 4]]))) == [(1, 2), (3, 4)]  # type: ignore[list-item]


def test_a_learning_rate_that_no_float_holds_is_told():
    with pytest.raises(DataError, match="the learning rate inf is not a finite float32"):
        learning_rate(10**400)
    with pytest.raises(DataError, match="the learning rate -inf is below 0"):
        learning_rate(-(10**400))
