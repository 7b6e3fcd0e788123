"""A trainer that is closed within its own calls or while profiled, and one of a closed artifact."""

import signal
import threading
from pathlib import Path

import numpy as np
import pytest

import odtc
from benchmarks.virtual_machine import VirtualMachineHere
from odtc.core.errors import UsageError
from odtc.runtime_rpc.sessions.local import LocalSession
from odtc.runtime_rpc.trainer import Trainer
from tests.numeric.mlp import CLASSES, INPUTS, mlp_artifact

X, Y = np.ones((8, INPUTS), np.float32), np.arange(8) % CLASSES
SESSIONS = (LocalSession(), VirtualMachineHere())


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> odtc.Artifact:
    return mlp_artifact(tmp_path_factory.mktemp("mlp"), odtc.SGD())


def by_a_schedule(trainer: Trainer) -> None:
    def schedule(_: int) -> float:
        trainer.close()
        return 0.05

    list(trainer.train([(X, Y)], lr=schedule))


def by_what_says_how_much_is_left(trainer: Trainer) -> None:
    asked: list[int] = []

    def available() -> int:
        asked.append(1)
        if len(asked) == 2:  # the first time nothing is taken yet
            trainer.close()
        return 1 << 30

    trainer.follow_memory(1, available)
    trainer.step(X, Y, lr=0.05)


def by_a_signal(trainer: Trainer) -> None:
    def close(*_: object) -> None:
        trainer.close()

    def schedule(_: int) -> float:
        signal.raise_signal(signal.SIGUSR1)
        return 0.05

    before = signal.signal(signal.SIGUSR1, close)
    try:
        list(trainer.train([(X, Y)], lr=schedule))
    finally:
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("session", SESSIONS)
@pytest.mark.parametrize("work", [by_a_schedule, by_what_says_how_much_is_left, by_a_signal])
def test_a_trainer_does_not_wait_for_itself(artifact, session, work) -> None:
    trainer = artifact.trainer(session, threads=1)
    with pytest.raises(UsageError, match="let the call return, and close it then"):
        work(trainer)
    # It is free again, and as it was.
    assert trainer.steps == 0
    trainer.step(X, Y, lr=0.05)
    trainer.close()
    with pytest.raises(UsageError, match="the trainer is closed"):
        trainer.step(X, Y, lr=0.05)


@pytest.mark.timeout(60)
def test_nor_does_one_of_another_thread(artifact) -> None:
    trainer = artifact.trainer(threads=1)
    said: list[str] = []

    def work() -> None:
        try:
            by_a_schedule(trainer)
        except UsageError as error:
            said.append(str(error))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(30)
    assert "let the call return" in said[0]


@pytest.mark.parametrize("session", SESSIONS)
def test_what_was_profiled_before_it_was_closed(artifact, session) -> None:
    trainer = artifact.trainer(session, threads=1)
    with trainer.profile() as profiling:
        for _ in range(3):
            trainer.step(X, Y, lr=0.05)
        trainer.close()
    assert len(profiling.profile.steps) == 3


def test_a_trainer_outlives_its_artifact(tmp_path: Path) -> None:
    """Methods that read the artifact's files say that they are gone; all others go on."""
    with mlp_artifact(tmp_path, odtc.SGD()) as artifact:
        trainer = artifact.trainer(threads=1)
    trainer.step(X, Y, lr=0.05)
    trainer.evaluate(X[:3])
    trainer.save_checkpoint(tmp_path / "checkpoint")
    for work in (
        trainer.profile,
        trainer.state_dict,
        lambda: trainer.export_onnx(tmp_path / "m.onnx"),
    ):
        with pytest.raises(UsageError, match="the artifact is closed, and its unpacked files"):
            work()
