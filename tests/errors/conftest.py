"""Where errors are caused."""

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from odtc.runtime_rpc import connect
from odtc.runtime_rpc.guards.limits import Limits
from tests.cli.training.digits import Digits, make_digits
from tests.errors.place import Place


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
def place(
    digits: Digits, tracker: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Place]:
    inputs, outputs, temporary = (tmp_path / name for name in ("inputs", "outputs", "temporary"))
    for folder in (inputs, outputs, temporary):
        folder.mkdir()
    monkeypatch.chdir(outputs)
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    monkeypatch.setattr(connect, "DEFAULT", Limits(connect=1.0, request=1.0))
    with ExitStack() as stack:
        yield Place(digits, inputs, outputs, tracker, stack)
