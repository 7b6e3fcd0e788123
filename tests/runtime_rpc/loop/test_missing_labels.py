"""What a run says of its loss where labels are missing: the mean over those that count.

The loss of a row is that of all samples of its steps as one batch, as PyTorch has it, and as a
validation of the same samples tells it; a batch without a label that counts adds nothing, and is
told of.
"""

import json
import math
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812

import odtc
from odtc.core.errors import DataError
from odtc.runtime_rpc.loop.history import Progress
from odtc.runtime_rpc.loop.view.points import Points
from tests.runtime_rpc.loop.models import BATCH, classed, saved, step_of
from tests.runtime_rpc.own_server import serving

IGNORED = -100
WEIGHTS = (0.5, 3.0, 0.0)
X, WHOLE = classed(48)
# One batch of the six has no label, and others have few.
SOME = WHOLE.copy()
SOME[[*range(8, 16), *range(16, 22), 25, 40]] = IGNORED
# A label of a class that weighs nothing counts as little as one that is ignored.
LIGHT = WHOLE.copy()
LIGHT[8:16] = 2

LOSSES: dict[str, tuple[np.ndarray, dict[str, Any]]] = {
    "cross-entropy{ignore-index=-100}": (SOME, {}),
    "cross-entropy{weight=0.5:3:0}": (LIGHT, {"weight": torch.tensor(WEIGHTS)}),
    "cross-entropy{weight=0.5:3:0,ignore-index=-100,label-smoothing=0.1}": (
        SOME,
        {"weight": torch.tensor(WEIGHTS), "label_smoothing": 0.1},
    ),
}
Run = dict[str, Any]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("missing")


@pytest.fixture(scope="module")
def artifact(folder: Path) -> odtc.Artifact:
    return step_of(folder, "cross-entropy{ignore-index=-100}", optimizer="adam")


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "some of what is measured is what is trained")
        yield


def in_order(labels: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    starts = range(0, len(labels), BATCH)
    return [(X[n : n + BATCH], labels[n : n + BATCH]) for n in starts]


def warned(function: Callable[[], Any]) -> tuple[Any, list[str]]:
    """What a function returns, and what it warns of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = function()
    return found, [str(each.message) for each in caught]


def quietly(trainer: odtc.Trainer, data: Any, **more: Any) -> odtc.History:
    """A run whose batches without labels are no matter of the test."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "step .* no label of its batch counts")
        warnings.filterwarnings("ignore", "fit: the batches of .* had no label that counts")
        return trainer.fit(data, **{"lr": 0.0, "epochs": 2, **more})


@pytest.mark.parametrize(("loss", "micro_batches"), list(zip(LOSSES, (1, 2, 4), strict=True)))
def test_the_loss_of_an_epoch_is_that_of_its_labels(folder: Path, loss: str, micro_batches: int):
    labels, options = LOSSES[loss]
    update = odtc.Update("sgd", accumulate=2)
    artifact = step_of(folder, loss, optimizer=update, micro_batches=micro_batches)
    trainer = artifact.trainer(threads=1)
    history = quietly(trainer, in_order(labels), validation=(X, labels))
    scores, wanted = torch.tensor(trainer.evaluate(X)), torch.tensor(labels).long()
    expected = float(F.cross_entropy(scores, wanted, ignore_index=IGNORED, **options))
    assert history["loss"] == pytest.approx([expected] * 2, rel=1e-5)
    assert history["val_loss"] == pytest.approx([expected] * 2, rel=1e-5)


def test_rows_within_an_epoch_are_weighed_too(artifact: odtc.Artifact):
    history = quietly(artifact.trainer(threads=1), in_order(SOME), validate_every=3, epochs=1,
                      validation=(X, SOME))  # fmt: skip
    scores = torch.tensor(artifact.trainer(threads=1).evaluate(X))
    halves = [slice(24), slice(24, None)]
    expected = [F.cross_entropy(scores[h], torch.tensor(SOME[h]).long()).item() for h in halves]
    assert history["loss"] == pytest.approx(expected, rel=1e-5)


def test_losses_of_which_each_label_counts_the_same_are_the_mean_of_the_steps(folder: Path):
    """To the bit."""
    losses: list[float] = []

    class Noted(odtc.Callback):
        def on_train_batch_end(self, run, step, loss) -> None:
            losses.append(loss)

    trainer = step_of(folder, "cross-entropy").trainer(threads=1)
    history = trainer.fit(in_order(WHOLE), lr=0.1, callbacks=[Noted()])
    assert history["loss"] == [sum(losses) / len(losses)]
    assert trainer.label_weight == 1


def test_a_loop_of_ones_own_has_the_weights(artifact: odtc.Artifact):
    trainer = artifact.trainer(threads=1)
    batches = in_order(SOME)

    def loop() -> list[tuple[float, float]]:
        return [(trainer.step(x, y, lr=0.0), trainer.label_weight) for x, y in batches + batches]

    taken, said = warned(loop)
    assert taken[1] == (0, 0)
    total, weight = (
        sum(each) for each in zip(*((loss * by, by) for loss, by in taken), strict=True)
    )
    (text,) = said
    assert text.startswith("step 2: no label of its batch counts (each is -100, which the loss ig")
    assert weight == 2 * (SOME != IGNORED).sum()
    expected = F.cross_entropy(torch.tensor(trainer.evaluate(X)), torch.tensor(SOME).long())
    assert total / weight == pytest.approx(expected.item(), rel=1e-5)


def test_a_batch_that_is_filled_again_is_weighed_as_it_was(artifact: odtc.Artifact):
    """A loader may give the same arrays each time."""
    x, y = np.empty_like(X[:BATCH]), np.empty_like(SOME[:BATCH])

    def refilled():
        for each, labels in in_order(SOME):
            x[:], y[:] = each, labels
            yield x, y

    trainer = artifact.trainer(threads=1)
    steps = trainer.train(refilled(), lr=0.0)
    weights, _ = warned(lambda: [trainer.label_weight for _ in steps])
    assert weights == [(y != IGNORED).sum() for _, y in in_order(SOME)]


def test_a_run_says_how_many_batches_had_no_label(artifact: odtc.Artifact, tmp_path: Path):
    log = tmp_path / "log"
    asked: Run = {"lr": 0.0, "epochs": 3, "callbacks": [odtc.JsonLines(log)]}
    _, said = warned(lambda: artifact.trainer(threads=1).fit(in_order(SOME), **asked))
    assert len(said) == 2, said
    assert said[0].startswith("step 2: no label of its batch counts")
    assert said[1].startswith("fit: the batches of 3 of 18 steps had no label that counts, the")
    assert "the first of them at step 2:" in said[1]
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [n["step"] for n in lines if n["loss"] is None] == [2, 8, 14]


def test_a_run_whose_labels_are_all_ignored_is_an_error(artifact: odtc.Artifact, folder: Path):
    none = np.full_like(WHOLE, IGNORED)
    for length in ({"epochs": 3}, {"epochs": None, "steps": 4}):
        with pytest.raises(DataError, match=r"no label counts in any batch of the [46] steps so"):
            quietly(artifact.trainer(threads=1), (X, none), **length)
    light = step_of(folder, "cross-entropy{weight=0.5:3:0}").trainer(threads=1)
    with pytest.raises(DataError, match="each is of a class whose weight is 0"):
        quietly(light, (X, np.full_like(WHOLE, 2)))


@pytest.mark.parametrize(
    ("labels", "why"),
    [
        ([0], "each is of a class whose weight is 0"),
        ([IGNORED], f"each is {IGNORED}, which the loss ignores"),
        (
            [0, IGNORED],
            f"each is {IGNORED}, which the loss ignores, or of a class whose weight is 0",
        ),
    ],
)
def test_why_no_label_counts_is_said_of_the_batch(folder: Path, labels: list[int], why: str):
    loss = f"cross-entropy{{weight=0:1:2,ignore-index={IGNORED}}}"
    trainer = step_of(folder, loss).trainer(threads=1)
    batch = np.resize(labels, BATCH).astype(WHOLE.dtype)
    _, (said,) = warned(lambda: trainer.step(X[:BATCH], batch, lr=0.1))
    assert f"({why})" in said


def test_a_row_without_a_label_has_no_loss(artifact: odtc.Artifact, tmp_path: Path):
    """It is neither the best one, nor an improvement; later rows are numbers again."""
    best = odtc.BestCheckpoint(tmp_path / "best", monitor="loss")
    asked: Run = {"lr": 0.0, "epochs": 2, "validation": (X, SOME), "validate_every": 1}
    trainer = artifact.trainer(threads=1)
    history, said = warned(lambda: trainer.fit(in_order(SOME), callbacks=[best], **asked))
    assert [math.isnan(loss) for loss in history["loss"]] == [n % 6 == 1 for n in range(12)]
    (text,) = (each for each in said if "no batch up to" in each)
    assert text.startswith("no batch up to step 2 has had a label that counts since the row before")
    found = history.best("loss")
    assert found
    assert found["step"] != 2


def test_a_validation_without_a_label_has_no_loss(artifact: odtc.Artifact, tmp_path: Path):
    """PyTorch's is NaN, too: a loss of 0 would be the best of all."""
    none = (X, np.full_like(WHOLE, IGNORED))
    best = odtc.BestCheckpoint(tmp_path / "best")
    asked: Run = {"validation": none, "metrics": ["accuracy", "perplexity"], "callbacks": [best]}
    history, said = warned(lambda: artifact.trainer(threads=1).fit((X, WHOLE), lr=0.0, **asked))
    assert all(math.isnan(history[f"val_{key}"][0]) for key in ("loss", "accuracy", "perplexity"))
    assert any("no label of the validation data counts" in each for each in said)
    assert any("val_loss was NaN at every validation" in each for each in said)
    assert not (tmp_path / "best").exists()


class Interrupt(odtc.Callback):
    def __init__(self, step: int) -> None:
        self._step = step

    def on_train_batch_end(self, run, step, loss) -> None:
        if step == self._step:
            raise KeyboardInterrupt


@pytest.mark.parametrize("cut", [2, 4, 9])
def test_a_run_that_is_cut_within_an_epoch_has_the_same_sums(
    artifact: odtc.Artifact, tmp_path: Path, cut: int
):
    whole, path = artifact.trainer(threads=1), tmp_path / "c.ckpt"
    asked: Run = {"lr": 0.01, "epochs": 3, "seed": 4}
    history = quietly(whole, (X, SOME), **asked)
    first = artifact.trainer(threads=1)
    callbacks = [odtc.Checkpoint(path, every=1), Interrupt(cut)]
    with pytest.raises(KeyboardInterrupt):
        quietly(first, (X, SOME), callbacks=callbacks, **asked)
    parts = artifact.trainer(threads=1)
    found = quietly(parts, (X, SOME), resume=path, **asked)
    assert found.rows == history.rows
    assert parts.progress == whole.progress
    assert saved(parts, tmp_path / "parts") == saved(whole, tmp_path / "whole")


def test_a_run_on_a_device_says_the_same(artifact: odtc.Artifact, tmp_path: Path):
    histories, said = [], []
    with serving(tmp_path / "sessions") as url:
        for device in (None, url):
            with artifact.trainer(device, threads=1) as trainer:
                run = partial(trainer.fit, in_order(SOME), lr=0.01, steps_per_call=4)
                history, told = warned(run)
            histories.append(history.rows)
            said.append([each for each in told if "no label" in each])
    assert histories[0] == histories[1]
    assert said[0] == said[1]
    assert len(said[0]) == 2


class Inside(torch.nn.Module):
    """A model with its loss inside, which ignores labels."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(6, 3)

    def forward(self, x: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(self.layer(x), wanted, ignore_index=IGNORED)


def test_a_loss_inside_of_the_model_says_a_batch_without_labels(tmp_path: Path):
    """How much a batch counts nothing shows there, but that none of its labels does."""
    example = torch.zeros(BATCH, 6), torch.zeros(BATCH, dtype=torch.int64)
    odtc.from_torch(Inside(), example, tmp_path / "m.onnx")
    artifact = odtc.compile(tmp_path / "m.onnx", batch=BATCH, loss="in-model")
    trainer = artifact.trainer(threads=1)
    steps = trainer.train(
        (({"x": x, "wanted": y.astype(np.int64)}, None) for x, y in in_order(SOME)),
        lr=lambda _: 0.0,
    )
    taken, said = warned(lambda: [(loss, trainer.label_weight) for loss in steps])
    assert [weight for _, weight in taken] == [1, 0, 1, 1, 1, 1]
    assert taken[1][0] == 0
    assert any("step 2: no label of its batch counts (each is -100" in each for each in said)


def test_a_run_of_before_losses_were_weighed_goes_on():
    """Each of its steps counted as one."""
    text = Progress(step=3, loss=4.5, count=3).to_text()
    before = {k: v for k, v in json.loads(text).items() if "unlabelled" not in k and k != "weight"}
    found = Progress.of_text(json.dumps(before), 3)
    assert found == Progress(step=3, loss=4.5, count=3, weight=3)


def test_the_range_test_leaves_updates_without_labels_out(artifact: odtc.Artifact):
    with pytest.warns(UserWarning, match="step 2: no label of its batch counts"):
        curve = artifact.trainer(threads=1).find_learning_rate(in_order(SOME), points=18)
    assert len(curve.rates) == len(curve.losses) == 15
    assert min(curve.losses) > 0
    none = (X, np.full_like(WHOLE, IGNORED))
    with pytest.raises(DataError, match="no label counts in any batch"):
        warned(partial(artifact.trainer(threads=1).find_learning_rate, none, points=3))


def test_a_chart_weighs_the_points_that_become_one():
    points = Points()
    for step in range(4096):
        points.add(step, 3.0 if step % 2 else 1.0, 1.0 if step % 2 else 3.0)
    points.add(4096, 0.0, 0.0)
    assert {value for _, value in points.shown()} == {1.5}


class Two(torch.nn.Module):
    """A model of two outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = torch.nn.Linear(6, 3), torch.nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.a(x), self.b(x)


NONE, SCORES = np.full(BATCH, IGNORED, np.int32), np.zeros((BATCH, 3), np.float32)


@pytest.mark.parametrize(
    ("other", "labels", "expected"),
    [
        (
            "cross-entropy{ignore-index=-100}",
            ((WHOLE[:8], WHOLE[:8]), (NONE, WHOLE[:8]), (NONE, NONE)),
            [1, 1, 0],
        ),
        ("mse", ((WHOLE[:8], SCORES), (NONE, SCORES)), [1, 1]),
    ],
)
def test_of_several_losses_a_step_counts_that_has_a_label_of_one(
    tmp_path: Path, other: str, labels: Sequence[tuple[np.ndarray, ...]], expected: list[int]
):
    example = (torch.zeros(BATCH, 6),)
    odtc.from_torch(Two(), example, tmp_path / "two.onnx", output_names=["a", "b"])
    losses = {"a": "cross-entropy{ignore-index=-100}", "b": other}
    artifact = odtc.compile(tmp_path / "two.onnx", batch=BATCH, loss=losses)
    trainer = artifact.trainer(threads=1)
    batches: list[Any] = [(X[:8], dict(zip(("a", "b"), each, strict=True))) for each in labels]
    weights, said = warned(
        lambda: [trainer.label_weight for _ in trainer.train(batches, lr=lambda _: 0.0)]
    )
    assert weights == expected
    assert any("step 3: no label of its batch counts" in each for each in said) == (0 in expected)
    _, said = warned(lambda: trainer.fit(batches[:1], lr=0.0, validation=batches[0]))
    assert any("the loss of the history is a mean over steps" in each for each in said)
