"""Options of a run and of its memory that change nothing are told, and only there."""

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import odtc
from odtc.core.errors import BudgetError
from odtc.runtime_rpc.loop.idle import OF_RUN
from odtc.runtime_rpc.memory.idle import OF_MEMORY
from tests.runtime_rpc.loop.models import BATCH, classed, step_of

X, Y = classed(4 * BATCH)
BATCHES = [(X[:BATCH], Y[:BATCH]), (X[BATCH:], Y[BATCH:])]
STEP = odtc.schedules.Step

# Arguments of `fit`, and what is said; nothing where they change something. An epoch is four steps.
RUNS: list[tuple[Mapping[str, Any], str]] = [
    ({"steps": 3, "lr": STEP(0.1, every=3)}, "schedule changes nothing: its first change comes"),
    (
        {"steps": 3, "lr": odtc.schedules.Warmup(STEP(0.1, every=9), steps=1)},
        "schedule changes nothing: its first change comes",
    ),
    ({"steps": 3, "lr": STEP(0.1, every=2)}, ""),
    ({"data": BATCHES, "seed": 1}, "seed changes nothing: samples come in the order in which"),
    ({"seed": 1}, ""),
    ({"validate_every": 5}, "validate_every changes nothing: the run has fewer steps"),
    ({"validate_every": 3}, ""),
    (
        {"epochs": 2, "callbacks": [odtc.EarlyStopping(patience=2)]},
        "patience of odtc.EarlyStopping changes nothing: the history of the run has no more rows",
    ),
    ({"epochs": 2, "callbacks": [odtc.EarlyStopping(patience=1)]}, ""),
    ({"epochs": 1, "validate_every": 1, "callbacks": [odtc.EarlyStopping(patience=2)]}, ""),
    ({"steps_per_call": 2}, "steps_per_call changes nothing: the steps of this machine wait"),
    ({"feature_cache": "1MiB"}, "feature_cache changes nothing: no frozen layers of the step"),
    ({"feature_cache": 0}, "feature_cache changes nothing: no frozen layers of the step"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("idle")


@pytest.fixture(scope="module")
def artifact(folder: Path) -> odtc.Artifact:
    return step_of(folder, "cross-entropy")


def told(work: Callable[[], Any]) -> list[str]:
    """The warnings of options that change nothing."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        work()
    return [said for each in caught if "changes nothing" in (said := str(each.message))]


def check(found: list[str], said: str) -> None:
    assert len(found) == bool(said), found
    assert not found or said in found[0]


def without_address(value: object) -> str:
    """Names of tests are the same in all processes."""
    return str(value).partition(" object at ")[0]


@pytest.mark.parametrize(("given", "said"), RUNS, ids=without_address)
def test_of_a_run(artifact: odtc.Artifact, given: Mapping[str, Any], said: str):
    arguments = {"data": (X, Y), "lr": 0.1, "validation": (X, Y), **given}
    check(told(lambda: artifact.trainer(threads=1).fit(**arguments)), said)


@pytest.mark.parametrize(("every", "said"), [(4, "every of odtc.Checkpoint changes no"), (3, "")])
def test_of_checkpoints(artifact: odtc.Artifact, tmp_path: Path, every: int, said: str):
    kept = [odtc.Checkpoint(tmp_path / "c", every=every)]
    check(told(lambda: artifact.trainer(threads=1).fit((X, Y), lr=0.1, callbacks=kept)), said)


@pytest.mark.parametrize(("steps", "said"), [(3, "lr changes nothing: no update is made"), (4, "")])
def test_of_a_run_without_an_update(folder: Path, steps: int, said: str):
    update = odtc.Update("sgd", accumulate=4)
    trainer = step_of(folder, "cross-entropy", optimizer=update).trainer(threads=1)
    before = trainer.parameters()
    check(told(lambda: trainer.fit((X, Y), lr=0.1, steps=steps)), said)
    same = [np.array_equal(before[name], now) for name, now in trainer.parameters().items()]
    assert all(same) is bool(said)


def test_of_steps_that_are_left_of_updates(folder: Path):
    update = odtc.Update("sgd", accumulate=4)
    trainer = step_of(folder, "cross-entropy", optimizer=update).trainer(threads=1)
    said = "fit: the last 2 of 6 steps make no update, which takes 4"
    with pytest.warns(UserWarning, match=said):
        trainer.fit((X, Y), lr=0.1, steps=6)


@pytest.mark.parametrize(("steps", "said"), [(1, ""), (6, "the last 1 of 6 steps make no update")])
def test_steps_before_the_run_are_of_its_first_update(folder: Path, steps: int, said: str):
    update = odtc.Update("sgd", accumulate=4)
    trainer = step_of(folder, "cross-entropy", optimizer=update).trainer(threads=1)
    trainer.fit((X, Y), lr=0.1, steps=3)
    before = trainer.parameters()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trainer.fit((X, Y), lr=0.1, steps=steps)
    assert not all(np.array_equal(before[k], now) for k, now in trainer.parameters().items())
    found = [text for each in caught if "no update" in (text := str(each.message))]
    assert len(found) == bool(said)
    assert not found or said in found[0]


def test_of_a_loader_nothing_is_gone_through_beforehand(artifact: odtc.Artifact):
    taken = []

    class Loader:
        def __iter__(self):
            taken.append("pass")
            return iter(BATCHES)

    stopping = [odtc.EarlyStopping(patience=9)]
    run = {"lr": 0.1, "epochs": 2, "validation": (X, Y), "callbacks": stopping}
    assert not told(lambda: artifact.trainer(threads=1).fit(Loader(), **run))
    assert len(taken) <= 3


MEMORY: list[tuple[Any, Mapping[str, Any], str]] = [
    ("sgd", {"offload_state": True}, "offload_state changes nothing: the optimizer keeps no state"),
    (
        "adam",
        {"offload_state": True},
        "offload_state changes nothing: no tensor of the state has the 64 KiB",
    ),
    ("sgd", {"storage": "."}, "storage changes nothing: no tensor of the step lies in a file"),
    ("sgd", {}, ""),
]


@pytest.mark.parametrize(("optimizer", "given", "said"), MEMORY, ids=str)
def test_of_memory(folder: Path, optimizer: Any, given: Mapping[str, Any], said: str):
    artifact = step_of(folder, "cross-entropy", optimizer=optimizer)
    check(told(lambda: artifact.trainer(threads=1, **given)), f"trainer: {said}" if said else "")


def test_of_state_that_is_large_enough(tmp_path: Path):
    artifact = step_of(tmp_path, "mse", 1100, optimizer="sgd{momentum=0.9}")
    given = {"offload_state": True, "storage": str(tmp_path)}
    assert not told(lambda: artifact.trainer(threads=1, **given))


def test_of_plans(artifact: odtc.Artifact, folder: Path):
    said = "trainer: follow_memory changes nothing: the artifact has one plan"
    trainer = artifact.trainer(threads=1)
    check(told(trainer.follow_memory), said)
    said = "trainer: memory_budget changes nothing: the artifact has one plan, which fits"
    check(told(lambda: trainer.set_budget("64MiB")), said)
    with warnings.catch_warnings(record=True) as caught, pytest.raises(BudgetError):
        trainer.set_budget("1B")
    assert not caught


def test_of_a_folder_of_weights(artifact: odtc.Artifact, tmp_path: Path):
    artifact.save(tmp_path / "a.odtc")
    said = "load: weights changes nothing: the artifact holds all of its weights"
    check(told(lambda: odtc.load(tmp_path / "a.odtc", weights=tmp_path)), said)
    assert not told(lambda: odtc.load(tmp_path / "a.odtc"))


def test_each_row_has_a_case():
    apart = {"lr", "checkpoint_every", "follow_memory", "memory_budget"}
    reasons = [said.partition(": ")[2] for *_, said in (*RUNS, *MEMORY) if said]
    rows = [row for row in (*OF_RUN, *OF_MEMORY) if row.option not in apart]
    assert not [row for row in rows if not any(row.why.startswith(each) for each in reasons)]
