"""`odtc devices` tells a server that begins no session from one that is free."""

import socket
from pathlib import Path

import pytest

from odtc.cli.main import main
from odtc.core.errors import ExitCode
from odtc.runtime_rpc.server.net import wire
from odtc.runtime_rpc.tracker.trackers import TRACKER_MAGIC
from tests.runtime_rpc.own_server import NATIVE, OTHER_BUILD, OTHER_SOURCES, PYTHON, serving
from tests.runtime_rpc.own_tracker import tracking

# Of TVM's `rpc/tracker.py`.
_UPDATE_INFO = 5


def listed(url: str, run_json) -> dict:
    place = url.removeprefix("rpc://").removesuffix("/here")
    (device,) = (
        each
        for each in run_json("devices", "--tracker", place)["devices"]
        if each["kind"] == "tracker"
    )
    return device


@pytest.mark.parametrize("server", [NATIVE, PYTHON])
def test_a_server_of_this_version_is_free(tmp_path: Path, run_json, server: str):
    with serving(tmp_path / "server", server=server) as url:
        device = listed(url, run_json)
    assert device["url"] == url
    assert device["state"] == "1 of 1 free"


def test_a_server_of_another_build_is_told(
    tmp_path: Path, run_json, capsys: pytest.CaptureFixture[str]
):
    with serving(tmp_path / "server", server=OTHER_BUILD) as url:
        assert listed(url, run_json)["state"] == "other version: run odtc device build"
        place = url.removeprefix("rpc://").removesuffix("/here")
        assert main(["devices", "--tracker", place]) == ExitCode.OK
    said = capsys.readouterr()
    assert f"{url}  other version: run odtc device build" in said.out
    assert f"note: {url}: the server is a different version or build: the hash of" in said.err
    assert OTHER_SOURCES in said.err


def test_a_server_that_is_gone_is_told(run_json):
    # As of a host whose cable is out: its tracker still has it.
    with socket.create_server(("127.0.0.1", 0)) as gone:
        nobody = gone.getsockname()[1]
    with tracking() as port, socket.create_connection(("127.0.0.1", port), 20) as registered:
        registered.sendall(wire.number(TRACKER_MAGIC))
        assert registered.recv(4) == wire.number(TRACKER_MAGIC)
        where = {"key": "server:here", "addr": ["127.0.0.1", nobody]}
        registered.sendall(wire.frame([_UPDATE_INFO, where]))
        device = listed(f"rpc://127.0.0.1:{port}/here", run_json)
    assert device["state"] == "0 of 1 free, 1 without an answer"
