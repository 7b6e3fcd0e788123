"""A run that is cut anywhere, and as often as is drawn, ends with the history and bits of one that
is not: at any call of a hook or of a metric, and while samples are read.
"""

import shutil
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import event, given, settings
from hypothesis import strategies as st
from torch import nn

import odtc
from odtc.runtime_rpc.loop.features import making
from tests.fast import examples
from tests.runtime_rpc.loop.models import saved

BATCH, SAMPLES, CLASSES, SIZE = 4, 22, 3, (3, 8, 8)
# How often hooks and others are reached in a run, at least; it is cut at one of these.
TIMES = {"on_train_begin": 1, "on_train_end": 1, "on_epoch_end": 2, "on_validation_end": 3}
TIMES |= {"on_train_batch_end": 13, "on_safe_point": 13}
PLACES = {f"{at} {hook}": times for at in ("first", "last") for hook, times in TIMES.items()}
PLACES |= {"metric": 2, "samples": 9}


class CutError(BaseException):
    """Ends a run as an interrupt does."""


@dataclass
class Cut:
    """Ends a run when a place is reached for the so-manieth time."""

    place: str = ""
    count: int = 0

    def reached(self, place: str) -> None:
        if place == self.place:
            self.count -= 1
            if not self.count:
                raise CutError


class Watch(odtc.Callback):
    """Tells a cut of each hook, and adds a column to the history."""

    def __init__(self, cut: Cut, at: str) -> None:
        for hook in TIMES:
            setattr(self, hook, lambda run, *_, hook=hook: self._told(run, hook))
        self._cut, self._at = cut, at

    def _told(self, run: Any, hook: str) -> None:
        if hook == "on_validation_end" and self._at == "first":
            run.history.rows[-1]["rows"] = len(run.history)
        self._cut.reached(f"{self._at} {hook}")


@dataclass
class Samples(torch.utils.data.Dataset):
    """Images that tell a cut when they are asked for."""

    cut: Cut
    x: np.ndarray = field(repr=False)
    y: np.ndarray = field(repr=False)

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        self.cut.reached("samples")
        return self.x[number], self.y[number]


class Batches:
    """The same as batches of five, which are gone through anew in each epoch."""

    def __init__(self, samples: Samples) -> None:
        self._samples = samples

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for n in range(0, len(self._samples), 5):
            self._samples.cut.reached("samples")
            yield self._samples.x[n : n + 5], self._samples.y[n : n + 5]


def drawn(samples: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, CLASSES, samples).astype(np.int32)
    x = rng.standard_normal((samples, *SIZE)).astype(np.float32)
    return x + np.float32(0.2) * y.astype(np.float32)[:, None, None, None], y


@cache
def artifact(kind: str) -> odtc.Artifact:
    """A step that trains all, or the last layer over features that are kept."""
    torch.manual_seed(0)
    before = [nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 12, 3, 2, 1)]
    after = [nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(12, 3)]
    net = nn.Sequential(*before, *after)
    options: dict[str, Any] = {}
    if kind == "frozen":
        for each in before:
            each.requires_grad_(False)
        options = {"freeze_batch_norm": True}
    folder = Path(mkdtemp())
    try:
        odtc.from_torch(net, (torch.zeros(BATCH, *SIZE),), folder / "net.onnx")
        update = odtc.Update("adam", accumulate=2, ema=0.9, clip_norm=1.0)
        return odtc.compile(folder / "net.onnx", batch=BATCH, optimizer=update, **options)
    finally:
        shutil.rmtree(folder)


@dataclass(frozen=True)
class Plan:
    """What a run is asked for.

    Attributes:
        kind: of the step.
        options: of `fit`, as they are.
        data: what it is: arrays, samples that are asked for, or batches that are gone through.
        validates: whether there is a validation.
        every: steps from one checkpoint to the next.
        keep: how many are kept beside the last one.
        patience: of early stopping; None for none.
        best: whether the best checkpoint is kept.
    """

    kind: str
    options: dict[str, Any]
    data: str
    validates: bool
    every: int
    keep: int
    patience: int | None
    best: bool

    def run(self, folder: Path, cut: Cut) -> tuple[odtc.Trainer, odtc.History]:
        """Takes the run up in a folder, or begins it there."""
        folder.mkdir(exist_ok=True)

        def mine(scores: np.ndarray, labels: np.ndarray) -> float:
            cut.reached("metric")
            return float(np.abs(scores).mean())

        samples = Samples(cut, *drawn(SAMPLES, 0))
        kept: list[Any] = [odtc.Checkpoint(folder / "c.ckpt", self.every, self.keep)]
        if self.patience:
            kept.append(odtc.EarlyStopping(patience=self.patience))
        if self.best:
            kept.append(odtc.BestCheckpoint(folder / "best.ckpt"))
        held = {"validation": drawn(9, 1), "metrics": ["accuracy", mine]} if self.validates else {}
        trainer = artifact(self.kind).trainer(threads=1)
        history = trainer.fit(
            {"arrays": (samples.x, samples.y), "samples": samples, "batches": Batches(samples)}[
                self.data
            ],
            callbacks=[Watch(cut, "first"), *kept, Watch(cut, "last")],
            resume=str(folder / "c.ckpt"),
            **self.options,
            **held,
        )
        return trainer, history


@st.composite
def plans(draw) -> Plan:
    kind = draw(st.sampled_from(["whole", "frozen"]))
    # Of other data, and of images that are augmented, no features are kept.
    data = "arrays" if kind == "frozen" else draw(st.sampled_from(["samples", "batches"]))
    validates = draw(st.booleans())
    options = {
        "lr": draw(st.sampled_from([0.01, 0.3])),
        "seed": draw(st.integers(0, 3)),
        **draw(st.sampled_from([{"epochs": 3}, {"steps": 13}])),
    }
    if data == "samples":
        options["augment"] = draw(st.sampled_from([[], ["flip"], ["crop{pixels=1}", "jitter"]]))
    if data != "batches" or "steps" in options:
        options["schedule"] = draw(
            st.sampled_from([None, odtc.schedules.Cosine, odtc.schedules.OneCycle])
        )
    if validates:
        options["validate_every"] = draw(st.sampled_from([None, 2, 5]))
        options["ema"] = draw(st.booleans())
    every, keep = draw(st.integers(1, 6)), draw(st.integers(0, 2))
    patience = draw(st.sampled_from([None, 1, 2]))
    return Plan(kind, options, data, validates, every, keep, patience, draw(st.booleans()))


@pytest.fixture(autouse=True, scope="module")
def features_are_worth_it() -> Iterator[None]:
    """This net makes them as fast as they are read."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(making, "_WORTH", 0)
        yield


@settings(max_examples=examples(16), deadline=None)
@given(
    plans(),
    st.lists(
        st.sampled_from(sorted(PLACES)).flatmap(
            lambda place: st.tuples(st.just(place), st.integers(1, PLACES[place]))
        ),
        min_size=1,
        max_size=4,
    ),
)
def test_a_run_that_is_cut_anywhere_ends_as_one_that_is_not(
    tmp_path_factory: pytest.TempPathFactory, plan: Plan, cuts: list[tuple[str, int]]
):
    folder = tmp_path_factory.mktemp("cut")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trainer, history = plan.run(folder / "whole", Cut())
        event(f"features: {any('was computed once' in str(each.message) for each in caught)}")
        for place, count in cuts:
            try:
                plan.run(folder / "parts", Cut(place, count))
            except CutError:
                event(f"cut at {place}")
        again, found = plan.run(folder / "parts", Cut())
    assert found.rows == history.rows
    assert found.stopped == history.stopped
    assert saved(again, folder / "b") == saved(trainer, folder / "a")
    files = {path.name: path.read_bytes() for path in (folder / "whole").iterdir()}
    assert {path.name: path.read_bytes() for path in (folder / "parts").iterdir()} == files
