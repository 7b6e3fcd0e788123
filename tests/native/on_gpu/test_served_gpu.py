"""Steps on a GPU by odtc-device: the bits of this process's."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import odtc
from odtc.core.errors import DeviceError
from odtc.runtime_rpc.engines.served import ServedEngine
from tests.native.on_gpu.same_run import KINDS
from tests.needs import needs
from tests.numeric.mlp import batches, mlp_artifact
from tests.runtime_rpc.own_server import NATIVE, serving
from tests.runtime_rpc.trainer.test_resume import everything

UPDATE = odtc.Update(odtc.AdamW(), accumulate=2, ema=0.9)


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_bits(kind: str, tmp_path: Path) -> None:
    artifact = mlp_artifact(tmp_path, UPDATE, target=f"host-{kind}")
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
    artifact = mlp_artifact(tmp_path, UPDATE, target="host-opencl")
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
