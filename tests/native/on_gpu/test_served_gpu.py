"""Steps on a GPU by odtc-device: the bits of this process's."""

import os
import re
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

import odtc
from odtc.core.errors import DeviceError
from odtc.core.process.cxx import cc_command
from odtc.core.specs import Role
from odtc.runtime_rpc.engines.served import ServedEngine
from tests.native.on_gpu.same_run import KINDS
from tests.needs import needs
from tests.numeric.mlp import batches, mlp_artifact
from tests.runtime_rpc.own_server import NATIVE, serving
from tests.runtime_rpc.trainer.test_resume import everything

UPDATE = odtc.Update(odtc.AdamW(), accumulate=2, ema=0.9)


@cache
def mlp(kind: str, micro_batches: int | None = None) -> odtc.Artifact:
    """A step of eight samples, compiled once for each kind of device."""
    with TemporaryDirectory() as folder:
        target = f"host-{kind}"
        return mlp_artifact(Path(folder), UPDATE, target=target, micro_batches=micro_batches)


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_bits(kind: str, tmp_path: Path) -> None:
    artifact = mlp(kind)
    with serving(tmp_path / "sessions", server=NATIVE) as url:
        for _ in range(2):  # the second time with the kernels that the first one has kept
            with artifact.trainer() as here, artifact.trainer(url) as there:
                assert isinstance(there._engine, ServedEngine)
                for x, y in batches(3):
                    assert there.step(x, y, lr=0.05) == here.step(x, y, lr=0.05)
                x = batches(1)[0][0]
                for ema in (False, True):
                    for count in (8, 3):
                        ours, theirs = (each.evaluate(x[:count], ema=ema) for each in (here, there))
                        np.testing.assert_array_equal(ours, theirs)
                assert everything(there, tmp_path / "there") == everything(here, tmp_path / "here")
                there.load_checkpoint(tmp_path / "here")
                assert there.step(*batches(1)[0], lr=0.05) == here.step(*batches(1)[0], lr=0.05)
        assert any((tmp_path / "sessions" / "gpu-programs").iterdir())


@pytest.mark.parametrize("kind", KINDS)
def test_a_profile_has_the_times_of_the_device(kind: str, tmp_path: Path) -> None:
    artifact = mlp(kind)
    with (
        serving(tmp_path / "sessions", server=NATIVE) as url,
        artifact.trainer(url) as trainer,
        trainer.profile() as profiling,
    ):
        list(trainer.train(batches(4), lr=0.05, steps_per_call=2))
    profile, kernels = profiling.profile, list(artifact.memory.plan.calls)
    assert [each.kernel for each in profile.operators] == kernels
    calls = [call for step in profile.steps for run in step for call in run.calls]
    assert len(calls) == 4 * len(kernels)
    assert all(call.end >= call.begin for call in calls)
    assert 0 < profile.coverage <= 1
    # Two calls, of two steps each.
    assert [move.kind for move in profile.moves] == ["link"] * 4


@pytest.mark.parametrize("micro_batches", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_steps_of_one_call_have_the_bits_of_steps_alone(
    kind: str, micro_batches: int, tmp_path: Path
) -> None:
    artifact = mlp(kind, micro_batches)
    data = batches(7)
    with (
        serving(tmp_path / "sessions", server=NATIVE) as url,
        artifact.trainer() as here,
        artifact.trainer(url) as there,
    ):
        alone = [here.step(x, y, lr=0.05) for x, y in data]
        assert [*there.train(data, lr=0.05, steps_per_call=3)] == alone
        assert everything(there, tmp_path / "there") == everything(here, tmp_path / "here")


@pytest.mark.parametrize(("kind", "micro_batches"), [("opencl", 2), ("vulkan", 1)])
def test_a_step_that_was_sent_and_is_refused(kind: str, micro_batches: int, tmp_path: Path) -> None:
    """The next one does not take it for its own."""
    artifact = mlp(kind, micro_batches)
    data = batches(4)
    with (
        serving(tmp_path / "sessions", server=NATIVE) as url,
        artifact.trainer() as here,
        artifact.trainer(url) as there,
    ):
        wrong = [there._converter.fed(x, y.copy()) for x, y in data[:2]]
        (label,) = artifact.manifest.of_role(Role.LABEL)
        wrong[1].whole[label][...] = 77
        engine = there._engine
        assert isinstance(engine, ServedEngine)
        with pytest.raises(DeviceError, match="label is 77, outside"):
            engine.take([(fed, 0.05) for fed in wrong], 0, lambda: None)
        there.steps = 1
        alone = [here.step(x, y, lr=0.05) for x, y in data]
        assert [there.step(x, y, lr=0.05) for x, y in data[1:]] == alone[1:]


def calls_of(tmp_path: Path, steps: int, per_call: int, batch: int) -> str:
    """The calls of OpenCL's library that a served run makes, a letter each."""
    artifact = mlp_artifact(tmp_path, UPDATE, batch, target="host-opencl")
    source, shim = Path(__file__).with_name("order.c"), tmp_path / "order.so"
    command = [*cc_command(), "-O1", "-Wall", "-Werror", "-fPIC", "-shared", str(source)]
    subprocess.run([*command, "-o", str(shim), "-ldl"], check=True)
    noting = {"LD_PRELOAD": str(shim), "ORDER": str(tmp_path / "order")}
    with (
        serving(tmp_path / "sessions", server=NATIVE, environment=noting) as url,
        artifact.trainer(url) as trainer,
    ):
        losses = trainer.train(batches(steps, batch), lr=0.05, steps_per_call=per_call)
        assert len([*losses]) == steps
    return (tmp_path / "order").read_text()


def test_the_next_batch_is_sent_while_a_step_runs(tmp_path: Path) -> None:
    # Of each call: inputs and labels of its first step, then of each while the one before it runs.
    # The first call allocates a second set of them; closing waits at the end.
    first, second = "wwf" + "ee" + "wwefwwefe", "wwfwwefwwefe"
    assert calls_of(tmp_path, 6, 3, 8).replace("a", "").endswith(first + second + "e")


def test_a_wait_sleeps_and_asks_first(tmp_path: Path) -> None:
    """Some drivers keep a core busy while they are waited for."""
    assert re.search("faa+e", calls_of(tmp_path, 20, 1, 1 << 16))


def linked(programs: Path) -> None:
    programs.symlink_to(programs.with_name("elsewhere"))


def shared(programs: Path) -> None:
    programs.mkdir()
    programs.chmod(0o777)


def of_another_user(programs: Path) -> None:
    programs.mkdir(mode=0o755)
    os.chown(programs, 10_123, 10_123)


@pytest.mark.parametrize(
    "plant",
    [
        linked,
        shared,
        pytest.param(
            of_another_user, marks=needs(os.geteuid() == 0, reason="root gives a folder away")
        ),
    ],
)
def test_nothing_is_kept_where_others_may_write(
    plant: Callable[[Path], None], tmp_path: Path
) -> None:
    """A driver runs what it has kept, and in /tmp anybody may have made the folder."""
    artifact = mlp("opencl")
    programs = tmp_path / "sessions" / "gpu-programs"
    (elsewhere := programs.with_name("elsewhere")).mkdir(parents=True)
    plant(programs)
    log = tmp_path / "log"
    with serving(tmp_path / "sessions", log=log, server=NATIVE) as url:
        with artifact.trainer(url) as trainer:
            assert trainer.step(*batches(1)[0], lr=0.05) > 0
        assert not list(programs.iterdir())
        assert not list(elsewhere.iterdir())
        assert "what the GPU's driver compiles is not kept: gpu-programs" in log.read_text()


def test_a_machine_without_a_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "vendors").mkdir()
    monkeypatch.setenv("OCL_ICD_VENDORS", str(tmp_path / "vendors"))
    artifact = mlp_artifact(tmp_path, UPDATE, target="host-opencl")
    none = pytest.raises(DeviceError, match="there is no OpenCL device 0: this machine has 0")
    with serving(tmp_path / "sessions", server=NATIVE) as url, none:
        artifact.trainer(url)
