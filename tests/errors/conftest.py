"""Where errors are caused."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.digits import Digits, make_digits
from tests.errors.causes import Place


@pytest.fixture(scope="session")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Digits:
    return make_digits(tmp_path_factory.mktemp("digits"))


@pytest.fixture(scope="session")
def tracker() -> Iterator[str]:
    """HOST:PORT of an RPC tracker without any device."""
    from tvm.rpc.tracker import Tracker

    running = Tracker(host="127.0.0.1", port=9800, port_end=9900, silent=True)
    yield f"127.0.0.1:{running.port}"
    running.terminate()


@pytest.fixture
def place(digits: Digits, tracker: str, tmp_path: Path, monkeypatch) -> Place:
    folders = [tmp_path / name for name in ("inputs", "outputs", "temporary")]
    for folder in folders:
        folder.mkdir()
    monkeypatch.chdir(folders[1])
    monkeypatch.setattr(tempfile, "tempdir", str(folders[2]))
    return Place(digits, folders[0], folders[1], tracker)
