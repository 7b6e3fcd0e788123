"""A run has as many steps as an int32 can number calls: the last one is taken, none after it."""

from pathlib import Path

import numpy as np
import pytest

import odtc
from benchmarks.virtual_machine import VirtualMachineHere
from odtc.core.errors import UnsupportedError
from odtc.runtime_rpc.sessions.local import LocalSession
from tests.numeric.mlp import CLASSES, INPUTS, mlp_artifact

X, Y = np.ones((8, INPUTS), np.float32), np.arange(8) % CLASSES


@pytest.mark.parametrize("micro_batches", [1, 2])
def test_the_last_step_of_all(tmp_path: Path, micro_batches: int) -> None:
    artifact = mlp_artifact(tmp_path, odtc.SGD(), micro_batches=micro_batches)
    most = (2**31 - 1) // micro_batches
    losses = []
    for session in (LocalSession(), VirtualMachineHere()):
        trainer = artifact.trainer(session, threads=1)
        trainer._engine.restart(most - 1)
        trainer.steps = most - 1
        trainer.save_checkpoint(tmp_path / "checkpoint")
        trainer.load_checkpoint(tmp_path / "checkpoint")
        losses.append(trainer.step(X, Y, lr=0.05))
        assert trainer.steps == most
        for work in (
            lambda it=trainer: it.step(X, Y, lr=0.05),
            lambda it=trainer: list(it.train([(X, Y)], lr=0.05)),
        ):
            with pytest.raises(UnsupportedError, match=f"a run takes at most {most:,} steps"):
                work()
        assert trainer.steps == most
        trainer.evaluate(X)
    assert losses[0] == losses[1]
