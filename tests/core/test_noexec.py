"""Where the system runs nothing from the folder for temporary files, as hardened ones do."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from odtc.backends.native.build import load_runtime
from odtc.core.disk.files import check_programs
from odtc.core.errors import OutputError
from odtc.runtime_rpc.session import LocalSession
from tests.mounts import mounted


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


def test_a_runtime(noexec: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(noexec))
    with pytest.raises(OutputError, match="mounted noexec"):
        load_runtime.__wrapped__("opencl")
