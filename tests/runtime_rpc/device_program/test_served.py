"""Trainers of odtc-device: the bits of this machine's, whatever the step; and how they fail."""

import os
import shutil
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

import odtc
from odtc.core.errors import (
    ArtifactError,
    DeviceError,
    DeviceLostError,
    UnsupportedError,
)
from odtc.runtime_rpc.engines.served import ServedEngine
from odtc.runtime_rpc.guards.limits import Limits
from tests.numeric.mlp import batches, mlp_artifact
from tests.numeric.plans.test_memory_budget import tower
from tests.runtime_rpc.own_server import NATIVE, serving
from tests.runtime_rpc.trainer.test_resume import everything

LR = 0.05
UPDATE = odtc.Update(odtc.AdamW(), accumulate=2, ema=0.9, clip_norm=0.5)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("server") / "sessions", server=NATIVE) as running:
        yield running


@pytest.fixture(scope="module")
def image_artifact(tmp_path_factory: pytest.TempPathFactory) -> odtc.Artifact:
    """A step with several plans, batch normalisations and dropout."""
    folder = tmp_path_factory.mktemp("tower")
    onnx.save(tower(layers=2), folder / "tower.onnx")
    return odtc.compile(
        folder / "tower.onnx", "host-cpu", batch=4, optimizer=UPDATE, memory_budget="auto"
    )


def pictures(count: int) -> list[tuple[np.ndarray, np.ndarray]]:
    made = np.random.default_rng(3)
    return [
        (made.normal(size=(4, 8, 12, 12)).astype(np.float32), made.integers(0, 3, 4))
        for _ in range(count)
    ]


def test_steps_budgets_and_evaluations_have_the_bits_of_this_machine(
    url: str, image_artifact: odtc.Artifact, tmp_path: Path
) -> None:
    here, there = image_artifact.trainer(threads=2), image_artifact.trainer(url, threads=2)
    assert isinstance(there._engine, ServedEngine)
    data = pictures(6)
    for number, (x, y) in enumerate(data):
        if number == 3:
            for trainer in (here, there):
                trainer.set_budget(image_artifact.manifest.budget_of(here_plan(trainer, -1)))
        assert there.step(x, y, LR) == here.step(x, y, LR)
        assert there._engine.plan == here._engine.plan
    x = data[0][0]
    for ema in (False, True):
        ours, theirs = here.evaluate(x, ema=ema), there.evaluate(x, ema=ema)
        np.testing.assert_array_equal(ours, theirs)
    assert everything(there, tmp_path / "there") == everything(here, tmp_path / "here")
    there.session.close()


def here_plan(trainer, number: int):
    return trainer._manifest.plans[number]


def test_a_checkpoint_goes_on_over_there_and_here(url: str, tmp_path: Path) -> None:
    artifact = mlp_artifact(tmp_path, UPDATE, micro_batches=2)
    data = batches(6)
    whole, there = artifact.trainer(threads=1), artifact.trainer(url, threads=1)
    expected = [whole.step(x, y, LR) for x, y in data]
    found = [there.step(x, y, LR) for x, y in data[:3]]
    there.save_checkpoint(tmp_path / "there.ckpt")
    there.session.close()
    again = artifact.trainer(url, threads=1)
    again.load_checkpoint(tmp_path / "there.ckpt")
    found += [again.step(x, y, LR) for x, y in data[3:5]]
    again.save_checkpoint(tmp_path / "again.ckpt")
    again.session.close()
    last = artifact.trainer(threads=1)
    last.load_checkpoint(tmp_path / "again.ckpt")
    assert [*found, last.step(*data[5], LR)] == expected
    assert everything(last, tmp_path / "last") == everything(whole, tmp_path / "whole")


def test_two_trainers_of_a_session_share_nothing(url: str, tmp_path: Path) -> None:
    first = mlp_artifact(tmp_path, UPDATE)
    session = odtc.connect(url)
    one, other = first.trainer(session, threads=1), first.trainer(session, threads=2)
    here = first.trainer(threads=1)
    for x, y in batches(3):
        assert one.step(x, y, LR) == here.step(x, y, LR)
    fresh = first.trainer(threads=1)
    for x, y in batches(2):
        assert other.step(x, y, LR) == fresh.step(x, y, LR)
    session.close()


def test_a_profile_is_of_the_kernels(url: str, image_artifact: odtc.Artifact) -> None:
    trainer = image_artifact.trainer(url, threads=1)
    with trainer.profile() as profiling:
        begin = time.monotonic()
        for x, y in pictures(2):
            trainer.step(x, y, LR)
        took = time.monotonic() - begin
    trainer.session.close()
    profile = profiling.profile
    # A step and its link are the time of its call.
    assert [move.kind for move in profile.moves] == ["link"] * 4
    assert 0 < 2 * profile.moved_seconds("link") < took - sum(profile.step_seconds)
    (run,), (_,) = profile.steps
    kernels = [profile.operators[call.operator].kernel for call in run.calls]
    assert kernels == list(image_artifact.memory.plan.calls)
    assert all(call.end >= call.begin for call in run.calls)


def test_the_device_is_sampled_as_this_machine_is(url: str) -> None:
    session = odtc.connect(url)
    with session.sampling(0.005) as sampling:
        np.linalg.svd(np.ones((200, 200)))
    samples = sampling.samples
    session.close()
    with odtc.connect().sampling(0.005) as here:
        np.linalg.svd(np.ones((200, 200)))
    states = {name: probe.state for name, probe in samples.probes.items()}
    assert states == {name: probe.state for name, probe in here.samples.probes.items()}
    assert samples.series.keys() == here.samples.series.keys()
    assert samples.series["resident"].values[-1] < here.samples.series["resident"].values[-1] / 10


def test_a_session_that_is_killed_is_a_lost_device(url: str, tmp_path: Path) -> None:
    trainer = mlp_artifact(tmp_path, UPDATE).trainer(url, threads=1)
    (x, y), *_ = batches(1)
    trainer.step(x, y, LR)
    os.kill(trainer.session.info()["pid"], signal.SIGKILL)
    with pytest.raises(DeviceLostError, match="SIGKILL"):
        trainer.step(x, y, LR)
    trainer.session.close()
    again = odtc.connect(url, Limits(request=10))
    assert again.info()["machine"]
    again.close()


def test_a_library_of_another_program_is_refused(url: str, tmp_path: Path) -> None:
    """The device compares what it was sent itself."""
    one, other = mlp_artifact(tmp_path, UPDATE), mlp_artifact(tmp_path, odtc.SGD())
    library = other._bundle.library.read_bytes()
    one._bundle.library.write_bytes(library)
    session = odtc.connect(url)
    with pytest.raises(ArtifactError, match="are not of one artifact"):
        one.trainer(session)
    session.close()


def test_a_step_without_a_program_is_refused(url: str, tmp_path: Path) -> None:
    artifact = mlp_artifact(tmp_path, UPDATE)
    files = {k: v for k, v in artifact.manifest.files.items() if k != "program.bin"}
    session = odtc.connect(url)
    bundle = replace(artifact._bundle, manifest=replace(artifact.manifest, files=files))
    with pytest.raises(UnsupportedError, match="the artifact has no program"):
        ServedEngine(bundle, session, None, None)  # type: ignore[arg-type]
    session.close()


def test_what_needs_tvm_is_refused_by_name(url: str, tmp_path: Path) -> None:
    session = odtc.connect(url)
    for call, says in (
        (lambda: session.load(tmp_path / "step.so"), "no virtual machine of TVM's"),
    ):
        with pytest.raises(DeviceError, match=f"odtc-device, which .*{says}"):
            call()
    session.close()


def test_a_step_lets_go_of_nothing_on_the_device(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TVM waits for the device's answer where one is dropped, and stops the watchdog meanwhile."""
    (x, y), *_ = batches(1)
    with mlp_artifact(tmp_path, odtc.SGD()).trainer(url) as trainer:

        def work() -> float:
            assert trainer.session.core_speeds()
            assert trainer.session.available_bytes() > 0
            trainer.evaluate(x)
            return trainer.step(x, y, lr=LR)

        first = work()
        with monkeypatch.context() as patched:
            patched.setattr(trainer.session.remote, "get_function", pytest.fail)
            assert work() < first


def test_a_folder_that_is_gone_is_named(tmp_path: Path) -> None:
    """As where the system empties /tmp: the server runs, and no session can have its files."""
    folder, limits = tmp_path / "sessions", Limits(connect=60, request=60)
    with serving(folder, server=NATIVE) as running:
        odtc.connect(running, limits).close()
        shutil.rmtree(folder)  # the session that was closed may not have left it yet
        with pytest.raises(DeviceLostError, match=r"no session can begin in .*: No such file"):
            odtc.connect(running, limits)
        folder.mkdir()
        odtc.connect(running, limits).close()
