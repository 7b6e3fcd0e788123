"""A phone through the real adb: set up, listed, trained on, stopped; and what listens where."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import psutil
import pytest

import odtc
from benchmarks.models.digits import digits_data, digits_model
from odtc.cli.main import main
from odtc.core.errors import DeviceError
from odtc.runtime_rpc.adb import server, setup, state
from odtc.runtime_rpc.adb.describe import parse
from odtc.runtime_rpc.profile.trace import EMULATED
from odtc.runtime_rpc.standin.adb_phone import AdbPhone
from tests.device.adb_host import adb, plugged_in, server_processes, wait_until_free
from tests.runtime_rpc.trace_format import faults

pytestmark = pytest.mark.device

BATCH = 32


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """A command line of odtc that must go well, and the JSON that it prints."""

    def call(*words: object) -> Any:
        code, (printed, said) = main([str(word) for word in words]), capsys.readouterr()
        assert code == 0, printed + said
        return json.loads(printed) if printed.startswith("{") else printed

    return call


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An artifact for the phone, and data."""
    folder = tmp_path_factory.mktemp("digits")
    onnx.save(digits_model(), folder / "digits.onnx")
    artifact = odtc.compile(folder / "digits.onnx", target="android-cpu", batch=BATCH)
    artifact.save(folder / "digits.odtc")
    x, y, *_ = digits_data()
    np.savez(folder / "digits.npz", x=x, y=y)
    return folder


def test_from_setup_to_stop(plugged: AdbPhone, files: Path, run, tmp_path: Path) -> None:
    """The whole way of a user, through the command line and the real adb."""
    serial, checkpoint = plugged.serial, tmp_path / "checkpoint"
    (device,) = run("devices", "--json")["devices"]
    assert device["state"] == "not set up"
    url = run("device", "setup", serial, "--key", "pixel", "--tracker", "0").strip()
    assert url.endswith("/pixel")
    before = server_processes(plugged)
    assert run("device", "setup", serial, "--json")["url"] == url
    assert server_processes(plugged) == before
    (device, at_tracker) = run("devices", "--json")["devices"]
    assert (device["state"], device["key"], device["tracker_url"]) == ("free", "pixel", url)
    assert device["emulated"] is True
    assert device["cores"] == "4 x Cortex-A55 1.8 GHz + 4 x Cortex-A76 2.4 GHz"
    assert (at_tracker["url"], at_tracker["free"]) == (url, 1)
    assert "Stand-in" in run("devices")
    command = ["train", files / "digits.odtc", "--data", files / "digits.npz", "--lr", "0.01"]
    options = ["--steps", "20", "--checkpoint", checkpoint, "--json"]
    report = run(*command, *options, "--device", f"adb://{serial}")
    assert (report["steps"], report["emulated"]) == (20, True)
    assert not {"step_ms", "samples_per_second"} & report.keys()
    assert checkpoint.exists()
    written = ["--trace", tmp_path / "trace.json", "--html", tmp_path / "page.html", "--json"]
    command = ["profile", files / "digits.odtc", "--steps", "2", *written]
    profile = run(*command, "--device", f"adb://{serial}")
    assert (len(profile["steps"]), profile["emulated"]) == (2, True)
    assert faults((tmp_path / "trace.json").read_text()) == []
    assert EMULATED in (tmp_path / "page.html").read_text()
    assert len(run("device", "doctor", serial, "--json")["checks"]) == 9
    wait_until_free(plugged)
    check_sockets(plugged)
    run("device", "stop", serial)
    assert not server_processes(plugged)
    assert not list(state.phones())
    assert not adb("forward", "--list").strip()
    assert not adb("-s", serial, "reverse", "--list").strip()
    # It was asked to end, and gets to it.
    _, alive = psutil.wait_procs(trackers(), timeout=60)
    assert not alive


def trackers() -> list[psutil.Process]:
    """Trackers that this test's commands started."""
    folder = str(state.folder())
    found = []
    for process in psutil.process_iter():
        try:
            files = [file.path for file in process.open_files()]
        except psutil.Error:
            continue
        if any(path.startswith(folder) for path in files):
            found.append(process)
    return found


def check_sockets(phone: AdbPhone) -> None:
    """Nothing listens on the network of the phone, and on this host on loopback only."""
    table = adb("-s", phone.serial, "shell", "cat /proc/net/tcp /proc/net/tcp6 /proc/net/udp")
    listening = [line.split() for line in table.splitlines() if line.split()[3:4] == ["0A"]]
    assert not listening
    known = state.find(phone.serial)
    assert known
    ours = {known.port, known.tracker, int(phone.serial.rpartition(":")[2])}
    found = {
        (it.laddr.ip, it.laddr.port)
        for it in psutil.net_connections("tcp")
        if it.status == psutil.CONN_LISTEN and it.laddr.port in ours
    }
    assert found == {("127.0.0.1", port) for port in ours}


def test_who_is_not_trusted_is_not_served(ready: AdbPhone) -> None:
    """Another app of the phone reaches the abstract socket, and is sent away."""
    known = state.find(ready.serial)
    assert known
    name = server.server_name(known)
    script = (
        "import os, socket; os.setuid(10077); s = socket.socket(socket.AF_UNIX);"
        f"s.settimeout(5); s.connect('\\0{name}')\n"
        "try: s.sendall(b'ctdo'); print(s.recv(1))\n"
        "except (BrokenPipeError, ConnectionResetError): print(b'')"
    )
    entered = ["nsenter", "-t", str(server_processes(ready)[0].pid), "-n", sys.executable]
    command = [*entered, "-c", script]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    assert done.stdout == "b''\n", done.stderr


def test_no_phone_is_an_empty_list(run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr("odtc.cli.phones.devices._DEFAULT_TRACKER", "127.0.0.1:1")
    assert run("devices", "--json") == {"devices": []}
    assert run("devices") == ""


def test_this_machine_is_listed_where_it_is_asked_for(run) -> None:
    local = [it for it in run("devices", "--local", "--json")["devices"] if it["kind"] == "local"]
    assert local[0]["name"] == "cpu"


@pytest.mark.parametrize("printed", ["", "=odtc=properties\n", "=odtc=memory\nMemTotal: 1 kB"])
def test_what_a_phone_does_not_say_is_left_out(printed: str) -> None:
    assert parse(printed).keys() <= {"emulated", "memory_bytes"}


def test_a_full_phone_is_not_filled_further(plugged: AdbPhone) -> None:
    with plugged_in(disk="512k") as small, pytest.raises(DeviceError, match="KiB left; odtc's"):
        setup.set_up(small.serial, tracker=0)
    assert not state.find(small.serial)


@pytest.mark.slow
def test_two_phones_on_one_host(ready: AdbPhone, files: Path) -> None:
    artifact = odtc.load(files / "digits.odtc")
    x, y, *_ = digits_data()
    with plugged_in() as other:
        known = state.find(ready.serial)
        assert known
        setup.set_up(other.serial, key="other", tracker=known.tracker)
        trainers = [artifact.trainer(f"adb://{it.serial}") for it in (ready, other)]
        losses = [[it.step(x[:BATCH], y[:BATCH], 0.01) for it in trainers] for _ in range(3)]
        assert all(first == second for first, second in losses)
        for trainer in trainers:
            trainer.session.close()
        wait_until_free(other)
    wait_until_free(ready)
