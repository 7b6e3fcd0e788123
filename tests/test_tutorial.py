"""Every file and every command of docs/tutorial.md, in its order."""

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from odtc.cli.main import main
from odtc.runtime_rpc.standin.adb_phone import AdbPhone
from tests.device.adb_host import adb_server, plugged_in

TUTORIAL = Path(__file__).parents[1] / "docs" / "tutorial.md"
_BLOCK = re.compile(r"^```(?P<kind>\w+)(?: (?P<file>\S+))?\n(?P<text>.*?)^```$", re.M | re.S)
# What needs a phone, and what takes longer.
PHONE, PEERS = "On the phone", "Beside other libraries"


def sections() -> dict[str, str]:
    """Text by title."""
    parts = re.split(r"^## (.*)\n", TUTORIAL.read_text(), flags=re.M)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def follow(section: str, serial: str = "") -> None:
    """Does what a section says, in this folder."""
    for block in _BLOCK.finditer(sections()[section]):
        if block["file"]:
            Path(block["file"]).write_text(block["text"])
            continue
        assert block["kind"] == "sh"
        for line in block["text"].splitlines():
            program, *words = shlex.split(line.replace("SERIAL", serial))
            if program == "odtc":
                assert main(words) == 0, line
            else:
                assert program == "python"
                subprocess.run([sys.executable, *words], check=True, timeout=300)


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """The folder of one who has read to the phone."""
    folder = tmp_path_factory.mktemp("tutorial")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for section in sections():
            if section not in (PHONE, PEERS):
                follow(section)
    return folder


@pytest.fixture
def here(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it."""
    shutil.copytree(trained, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


def test_a_model_is_trained_here(trained: Path) -> None:
    assert {path.name for path in trained.iterdir()} >= {"trained.onnx", "small.odtc"}


@pytest.fixture
def phone(tmp_path: Path) -> Iterator[AdbPhone]:
    """An emulated one, which adb lists."""
    with adb_server(tmp_path), plugged_in() as found:
        yield found


@pytest.mark.device
@pytest.mark.slow
def test_a_phone_trains_it(here: Path, phone: AdbPhone) -> None:
    (here / "trained.onnx").unlink()
    follow(PHONE, phone.serial)
    assert (here / "trained.onnx").exists()
    assert "emulated" in (here / "profile.html").read_text()


@pytest.mark.slow
def test_it_is_compared(here: Path) -> None:
    follow(PEERS)
    rows = (here / "compared.jsonl").read_text()
    assert rows.count('"outcome": "trained"') == 3
    assert "Where odtc loses" in (here / "report.html").read_text()
