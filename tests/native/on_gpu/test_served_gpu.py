"""Steps on a GPU by odtc-device: the bits of this process's."""

from pathlib import Path

import numpy as np
import pytest

import odtc
from odtc.core.errors import DeviceError
from odtc.runtime_rpc.engines.served import ServedEngine
from tests.native.on_gpu.same_run import KINDS
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


def test_a_machine_without_a_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "vendors").mkdir()
    monkeypatch.setenv("OCL_ICD_VENDORS", str(tmp_path / "vendors"))
    artifact = mlp_artifact(tmp_path, UPDATE, target="host-opencl")
    none = pytest.raises(DeviceError, match="there is no OpenCL device 0: this machine has 0")
    with serving(tmp_path / "sessions", server=NATIVE) as url, none:
        artifact.trainer(url)
