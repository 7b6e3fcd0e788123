"""Several steps in one call of a device: the same bits as one a call, and the same ways to end."""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

import odtc
from odtc.cli.main import main
from odtc.core.errors import DataError, DeviceError, DeviceLostError, ExitCode, NumericError
from odtc.runtime_rpc.guards.limits import Limits
from odtc.runtime_rpc.server.running import run_steps
from odtc.runtime_rpc.trainer import Trainer
from odtc.schedules import Cosine
from tests.numeric.mlp import batches, mlp_artifact, overflowing
from tests.runtime_rpc.hostile_peers.at_once import AtOnce, failing_behind
from tests.runtime_rpc.own_server import SERVERS, serving
from tests.runtime_rpc.trainer.test_resume import LARGE_SCALE, OVERFLOWS, STEPS, everything

UPDATE = odtc.Update(
    odtc.LAMB(),
    groups=[odtc.Group("*.bias", {"weight_decay": 0.0}, lr_factor=2.0)],
    clip_norm=0.1,
    accumulate=3,
    ema=0.9,
    loss_scale=odtc.LossScale(initial=LARGE_SCALE, interval=1),
)


@pytest.fixture(scope="module", params=SERVERS)
def url(request, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("server") / "sessions", server=request.param) as running:
        yield running


@dataclass
class Calls:
    """Counts calls, and records their arguments."""

    answers: list[Any]

    def __call__(self, *arguments: Any) -> str:
        self.answers.append(json.loads(run_steps(*arguments)))
        return json.dumps(self.answers[-1])

    @property
    def steps(self) -> list[int]:
        return [len(answer["losses"]) for answer in self.answers]


def counted() -> tuple[AtOnce, Calls]:
    calls = Calls([])
    return AtOnce(run=calls), calls


# The last call has fewer steps than the others.
@pytest.mark.parametrize("at_once", [4, STEPS + 3])
@pytest.mark.parametrize("parts", [1, 2])
def test_they_have_the_bits_of_single_steps(
    url: str, tmp_path: Path, at_once: int, parts: int
) -> None:
    artifact = mlp_artifact(tmp_path, UPDATE, micro_batches=parts, eval_batch=3)
    data, schedule = overflowing(batches(STEPS), OVERFLOWS), Cosine(0.02, steps=3)
    here, there = artifact.trainer(threads=1), artifact.trainer(url, threads=1)
    losses = list(here.train(data, schedule))
    assert list(there.train(data, schedule, at_once)) == losses
    assert there.steps == STEPS
    # By the evaluation of a whole batch, that of fewer samples, and both.
    for x in (data[0][0], data[0][0][:2], np.concatenate([data[0][0], data[1][0][:3]])):
        assert there.evaluate(x, ema=True).tobytes() == here.evaluate(x, ema=True).tobytes()
    assert everything(there, tmp_path / "there") == everything(here, tmp_path / "here")
    there.session.close()


def test_a_call_takes_as_many_as_there_are(tmp_path: Path) -> None:
    session, calls = counted()
    trainer = mlp_artifact(tmp_path, odtc.SGD()).trainer(session, threads=1)
    steps = [trainer.steps for _ in trainer.train(batches(7), 0.1, 3)]
    # While the losses of a call come, the device is at its end. A single step is an ordinary call.
    assert (steps, calls.steps) == ([3, 3, 3, 6, 6, 6, 7], [3, 3])


def test_this_machine_takes_one_a_call(tmp_path: Path) -> None:
    trainer = mlp_artifact(tmp_path, odtc.SGD()).trainer(threads=1)
    assert [trainer.steps for _ in trainer.train(batches(3), 0.1, 3)] == [1, 2, 3]


def test_a_batch_that_does_not_fit_comes_in_its_turn(url: str, tmp_path: Path) -> None:
    trainer = mlp_artifact(tmp_path, odtc.SGD()).trainer(url, threads=1)
    data = batches(5)
    data[3] = data[3][0][1:], data[3][1]
    losses = trainer.train(data, 0.1, 5)
    assert len([next(losses) for _ in range(3)]) == trainer.steps == 3
    with pytest.raises(DataError, match="shape"):
        next(losses)
    trainer.session.close()


def test_a_loss_that_is_not_finite_has_its_step(url: str, tmp_path: Path) -> None:
    trainer = mlp_artifact(tmp_path, odtc.SGD()).trainer(url, threads=1)
    data = batches(6)
    data[2][0][:] = np.nan
    losses = trainer.train(data, 0.1, 6)
    assert np.isfinite([next(losses), next(losses)]).all()
    with pytest.raises(NumericError, match=r"are nan at step 3 \(loss nan, learning rate 0\.1\)"):
        next(losses)
    trainer.session.close()


def test_another_failure_ends_it(tmp_path: Path) -> None:
    session = AtOnce(run=failing_behind(2, "the kernel failed"))
    trainer = mlp_artifact(tmp_path, odtc.SGD()).trainer(session, threads=1)
    with pytest.raises(DeviceError, match="the kernel failed"):
        next(trainer.train(batches(5), 0.1, 5))


def test_a_profile_of_them_has_every_step(url: str, tmp_path: Path) -> None:
    artifact = mlp_artifact(tmp_path, odtc.SGD(), micro_batches=2)
    trainer = artifact.trainer(url, threads=1)
    with trainer.profile() as profiling:
        list(trainer.train(batches(7), 0.1, 3))
    trainer.session.close()
    profile = profiling.profile
    assert [len(step) for step in profile.steps] == [2] * 7
    runs = [run for step in profile.steps for run in step]
    kernels = [[profile.operators[call.operator].kernel for call in run.calls] for run in runs]
    assert kernels == [list(artifact.memory.plan.calls)] * 14
    # Of each call of several steps: x, y, the learning rates and the steps' numbers. To odtc-device
    # they travel in the call itself.
    uploads = [move for move in profile.moves if move.kind == "upload"]
    assert len(uploads) == (0 if trainer.session.serves_programs else 2 + 1 + 2)


def test_the_limit_is_that_of_one_step(url: str) -> None:
    session = odtc.connect(url, Limits(run=0.5, beat=0.1))
    with session.guard(4):
        time.sleep(1)
        assert session.info()["machine"]
    with session.guard():
        time.sleep(1)
        with pytest.raises(DeviceLostError, match=r"more than 0\.5 s"):
            session.info()


def test_on_the_command_line(url: str, tmp_path: Path, monkeypatch, capsys) -> None:
    """A checkpoint is written after the call in which it is due."""
    mlp_artifact(tmp_path, odtc.SGD(momentum=0.9)).save(tmp_path / "mlp.odtc")
    x, y = (np.concatenate(each) for each in zip(*batches(8), strict=True))
    np.savez(tmp_path / "data.npz", x=x, y=y)
    saved: list[int] = []
    save = Trainer.save_checkpoint

    def noted(trainer: Trainer, path: Path) -> None:
        saved.append(trainer.steps)
        save(trainer, path)

    monkeypatch.setattr(Trainer, "save_checkpoint", noted)
    train = ["train", str(tmp_path / "mlp.odtc"), "--data", str(tmp_path / "data.npz")]
    often = ["--lr", "0.1", "--steps", "8", "--threads", "1", "--checkpoint-every", "4"]
    losses = []
    for name, more in {"here": [], "there": ["--device", url, "--steps-per-call", "3"]}.items():
        written = ["--checkpoint", str(tmp_path / name), "--json"]
        assert main([*train, *often, *more, *written]) == ExitCode.OK
        losses.append(json.loads(capsys.readouterr().out)["loss"])
    assert saved == [4, 8, 8, 6, 8, 8]
    assert losses[0] == losses[1]
    assert load_file(tmp_path / "here").keys() == load_file(tmp_path / "there").keys()
    for name, value in load_file(tmp_path / "here").items():
        np.testing.assert_array_equal(load_file(tmp_path / "there")[name], value)
