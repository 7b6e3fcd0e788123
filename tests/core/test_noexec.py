"""Where the system runs nothing from the folder for temporary files, as hardened ones do."""

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import odtc
from odtc.backends.spirv import module_of_bytes
from odtc.core.disk.files import check_programs
from odtc.core.errors import OutputError
from odtc.runtime_rpc.engines import choose
from odtc.runtime_rpc.native.interface import loaded_runtime
from odtc.runtime_rpc.sessions.local import LocalSession
from tests.mounts import mounted
from tests.numeric.mlp import mlp_artifact


@pytest.fixture
def noexec(tmp_path: Path) -> Iterator[Path]:
    """Such a folder."""
    folder = tmp_path / "noexec"
    folder.mkdir()
    check_programs(folder)
    with mounted(folder, "noexec,size=4m"):
        yield folder


def test_a_library_of_an_artifact(noexec: Path) -> None:
    with pytest.raises(OutputError, match="mounted noexec") as error:
        LocalSession().load(noexec / "step.so")
    assert error.value.where == str(noexec)
    assert error.value.hint
    assert "TMPDIR" in error.value.hint


def test_what_writes_kernels_for_vulkan(noexec: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(noexec))
    with pytest.raises(OutputError, match="mounted noexec"):
        module_of_bytes._load.__wrapped__()


def test_a_trainer_without_tvm(
    noexec: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not TVM that is missing: with it nothing could be loaded either."""
    mlp_artifact(tmp_path, odtc.SGD()).save(tmp_path / "m.odtc")
    monkeypatch.setattr(tempfile, "tempdir", str(noexec))
    monkeypatch.setattr(choose, "loaded_runtime", loaded_runtime.__wrapped__)
    monkeypatch.delitem(sys.modules, "odtc.runtime_rpc.engines.virtual_machine", raising=False)
    monkeypatch.setitem(sys.modules, "tvm", None)
    with odtc.load(tmp_path / "m.odtc") as artifact:
        with pytest.raises(OutputError, match="mounted noexec") as error:
            artifact.trainer(threads=1)
        assert error.value.where == str(artifact._bundle.root)
