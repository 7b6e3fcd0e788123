"""The range test of learning rates: what it suggests, and that nothing of it is left."""

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import odtc
from odtc.core.errors import DataError
from odtc.runtime_rpc.data.objects.given import source_of
from odtc.runtime_rpc.data.source import Stream
from odtc.runtime_rpc.data.wanted import ReadOptions
from odtc.runtime_rpc.loop.rates.curve import RateCurve
from odtc.runtime_rpc.loop.rates.range_test import RangeTest
from tests.runtime_rpc.loop.models import WIDTH, classed, saved, step_of

X, Y = classed(200)


def falling(rates: int = 60, at: int = 30) -> RateCurve:
    """Losses that fall from 3 to 1 about one rate, and rise at the end."""
    values = [1 + 2 / (1 + math.exp(0.5 * (n - at))) for n in range(rates - 5)]
    test = RangeTest(1e-6, 1.0, rates)
    losses = [*values, 1.5, 3.0, 6.0, 12.0, 24.0]
    return RateCurve(tuple(map(test.rate, range(rates))), tuple(losses))


def test_no_rate_is_suggested_behind_the_least_loss():
    """What rises there may fall again, and steeper; it is no rate to train at."""
    curve = falling()
    losses = (*curve.losses, *(24.0 / 2**n for n in range(1, 5)))
    rates = (*curve.rates, *(2.0**n for n in range(1, 5)))
    assert RateCurve(rates, losses).suggestion == curve.suggestion


def test_the_suggestion_is_where_the_loss_falls_steepest():
    curve = falling()
    at = curve.rates.index(curve.suggestion or 0)
    # By the logarithm of the loss the steepest place is behind the middle.
    assert 29 <= at <= 33
    assert curve.least
    assert 45 <= curve.rates.index(curve.least) <= 54
    noisy = np.random.default_rng(0).normal(1, 0.01, 60)
    other = RateCurve(curve.rates, tuple(noisy * curve.losses))
    assert abs(other.rates.index(other.suggestion or 0) - at) <= 3


@pytest.mark.parametrize("losses", [[], [1.0] * 4, [1.0] * 30, [*range(1, 31)]])
def test_there_is_none_where_it_does_not_fall(losses: list[float]):
    curve = RateCurve(tuple(RangeTest().rate(n) for n in range(len(losses))), tuple(losses))
    assert curve.suggestion is None
    assert "no suggestion: the loss does not fall" in str(curve)
    assert curve.as_data()["suggestion"] is None


def test_losses_below_zero_have_a_suggestion():
    curve = falling()
    below = RateCurve(curve.rates, tuple(loss - 100 for loss in curve.losses))
    assert 27 <= below.rates.index(below.suggestion or 0) <= 33


def test_a_curve_is_shown_without_what_diverges():
    curve = falling()
    lines = str(curve).splitlines()
    assert lines[0].split("|")[0].strip() == "3"
    assert sum("O" in line for line in lines[:10]) == 1
    assert lines[-2] == f"suggestion: {curve.suggestion:.2g}, where the loss falls steepest (O)"
    data = curve.as_data()
    assert data["curve"][3] == {
        "lr": curve.rates[3],
        "loss": curve.losses[3],
        "smoothed": curve.smoothed[3],
    }


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> odtc.Artifact:
    """With all that a step keeps: moments, accumulated gradients, averages, statistics."""
    torch.manual_seed(0)
    layers = [torch.nn.Linear(WIDTH, 16), torch.nn.BatchNorm1d(16), torch.nn.ReLU()]
    net = torch.nn.Sequential(*layers, torch.nn.Dropout(0.1), torch.nn.Linear(16, 3))
    path = tmp_path_factory.mktemp("rates") / "net.onnx"
    odtc.from_torch(net, (torch.zeros(8, WIDTH),), path)
    update = odtc.Update("adam", accumulate=2, ema=0.9, clip_norm=1.0)
    return odtc.compile(path, batch=8, optimizer=update)


def ways() -> dict[str, Callable[[odtc.Trainer], object]]:
    """How a test may end."""

    def interrupted(trainer: odtc.Trainer) -> None:
        def stop(number: int, _: float) -> None:
            if number == 3:
                raise KeyboardInterrupt

        stream = Stream(source_of((X, Y), trainer.manifest, ReadOptions()), 8, 0)  # type: ignore[arg-type]
        with pytest.raises(KeyboardInterrupt):
            RangeTest().run(trainer, stream, told=stop)

    def of_bad_data(trainer: odtc.Trainer) -> None:
        with pytest.raises(DataError):
            trainer.find_learning_rate([(X[:8], Y[:8]), (X[:8, :2], Y[:8])])

    return {
        "at its end": lambda trainer: trainer.find_learning_rate((X, Y), highest=0.01, points=30),
        "diverged": lambda trainer: trainer.find_learning_rate((X, Y), lowest=1, highest=1e30),
        "interrupted": interrupted,
        "of bad data": of_bad_data,
    }


@pytest.mark.parametrize("way", ways())
def test_nothing_of_it_is_left(artifact: odtc.Artifact, tmp_path: Path, way: str):
    trainer, other = artifact.trainer(threads=1), artifact.trainer(threads=1)
    for each in (trainer, other):
        each.fit((X, Y), lr=0.01, steps=6)
    before = saved(trainer, tmp_path / "a")
    ways()[way](trainer)
    assert saved(trainer, tmp_path / "b") == before
    for each in (trainer, other):
        each.fit((X, Y), lr=0.01, steps=6, seed=1)
    assert saved(trainer, tmp_path / "c") == saved(other, tmp_path / "d")


def test_rates_are_of_updates_and_the_curve_ends_where_it_diverges(artifact: odtc.Artifact):
    trainer = artifact.trainer(threads=1)
    curve = trainer.find_learning_rate((X, Y), lowest=1e-5, highest=1e-3, points=12)
    assert not curve.stopped
    assert len(curve.rates) == len(curve.losses) == 12
    np.testing.assert_allclose(curve.rates, np.geomspace(1e-5, 1e-3, 12), rtol=1e-12)
    # Two steps are an update here: the first point is of both.
    twin = artifact.trainer(threads=1)
    history = twin.fit((X, Y), lr=1e-5, steps=2)
    assert curve.losses[0] == pytest.approx(history["loss"][0], rel=1e-6)
    curve = trainer.find_learning_rate((X, Y), highest=1e6)
    assert curve.stopped
    assert len(curve.rates) < 100
    assert curve.suggestion
    assert 1e-4 < curve.suggestion < 1


def test_a_rate_that_it_suggests_trains(tmp_path: Path):
    trainer = step_of(tmp_path, "cross-entropy", optimizer="adam").trainer(threads=1)
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(torch.tensor(X), torch.tensor(Y)), 8, shuffle=True
    )
    curve = trainer.find_learning_rate(loader)
    assert curve.suggestion
    history = trainer.fit(loader, lr=curve.suggestion, epochs=10)
    assert history["loss"][-1] < history["loss"][0] / 3
