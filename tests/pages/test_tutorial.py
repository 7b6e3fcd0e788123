"""Every file and every command of docs/tutorial.md, in its order."""

import re
import shutil
from pathlib import Path

import pytest

from odtc.runtime_rpc.standin.adb_phone import AdbPhone
from tests.pages.followed import DOCS, follow

TUTORIAL = DOCS / "tutorial.md"
# What needs a phone, and what takes longer.
PHONE, PEERS = "On the phone", "Beside other libraries"


def sections() -> dict[str, str]:
    """Text by title."""
    parts = re.split(r"^## (.*)\n", TUTORIAL.read_text(), flags=re.M)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """The folder of a reader who has come to the phone."""
    folder = tmp_path_factory.mktemp("tutorial")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for section in sections():
            if section not in (PHONE, PEERS):
                follow(sections()[section])
    return folder


@pytest.fixture
def here(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it."""
    shutil.copytree(trained, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


def test_a_model_is_trained_here(trained: Path) -> None:
    assert {path.name for path in trained.iterdir()} >= {"trained.onnx", "small.odtc"}


@pytest.mark.device
@pytest.mark.slow
def test_a_phone_trains_it(here: Path, phone: AdbPhone) -> None:
    (here / "trained.onnx").unlink()
    follow(sections()[PHONE], phone.serial)
    assert (here / "trained.onnx").exists()
    assert "emulated" in (here / "profile.html").read_text()


@pytest.mark.slow
def test_it_is_compared(here: Path) -> None:
    follow(sections()[PEERS])
    rows = (here / "compared.jsonl").read_text()
    assert rows.count('"outcome": "trained"') == 3
    assert "Where odtc loses" in (here / "report.html").read_text()
