"""`odtc train`: its steps, what it writes, interrupts, resuming, devices."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from safetensors.numpy import load_file

import odtc
from odtc.cli.compiling import targets as targets_command
from odtc.cli.interrupts import interruption
from odtc.cli.main import main
from odtc.cli.training.loop import EMULATED
from odtc.core.errors import ExitCode
from odtc.runtime_rpc.sessions.local import LocalSession
from odtc.runtime_rpc.tracker.trackers import tracker_at
from tests.cli.training.digits import BATCH, SAMPLES, Digits, trained
from tests.runtime_rpc.own_server import START_SECONDS

PER_EPOCH = SAMPLES // BATCH
# The 8 samples that fill no batch of an epoch go with the next one.
OF_THREE = 3 * SAMPLES // BATCH


def test_train_counts_its_steps_and_evaluates(digits: Digits, here: Path, run_json):
    run = trained(digits, "--epochs", "3", "--lr", "0.05", "--eval-data", digits.test)
    summary = run_json(*run, "--export", "out.onnx")
    assert summary["steps"] == summary["steps_taken"] == OF_THREE
    assert 0.2 < summary["accuracy"] <= 1
    assert summary["step_ms"] > 0
    assert summary["samples_per_second"] == pytest.approx(1000 * BATCH / summary["step_ms"])
    assert summary["emulated"] is False
    assert summary["export"]["form"] == "inference"
    assert summary["export"]["batches"] == [BATCH, 1]
    assert summary["export"]["difference"] < 1e-5
    exported = onnx.load(summary["exported"])
    onnx.checker.check_model(exported, full_check=True)
    assert (
        exported.graph.initializer[0].raw_data
        != onnx.load(digits.model).graph.initializer[0].raw_data
    )


def test_train_says_what_it_leaves_out(
    digits: Digits, here: Path, capsys: pytest.CaptureFixture[str]
):
    options = ("--threads", "1", "--export", "out.onnx", "--no-verify")
    assert main(trained(digits, "--lr", "0.1", *options)) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith(f"{PER_EPOCH} steps, loss ")
    assert captured.out.endswith("\nexported out.onnx: inference form, not checked\n")
    assert "the last 8 of 200 samples of the last epoch fill no batch of 16" in captured.err


def test_train_says_what_cores_are_idle(
    digits: Digits, here: Path, capsys: pytest.CaptureFixture[str]
):
    """A step that was compiled where there are fewer cores, or for fewer."""
    target, cores = "host-cpu{threads=1}", len(os.sched_getaffinity(0))
    odtc.compile(digits.model, target, batch=BATCH).save(here / "one.odtc")
    command = ["train", "one.odtc", "--data", str(digits.train), "--lr", "0.1", "--steps", "1"]
    assert main(command) == 0
    useful = min(cores, 8)
    wanted = f"compiled for 1 of the {cores} cores of this machine; compile it for host-cpu{{"
    said = capsys.readouterr().err
    assert (wanted in said) == (f"threads={useful}}} to use {useful}" in said) == (cores > 1)
    assert said.count("cores of this machine") == (cores > 1)
    assert main(["profile", "one.odtc", "--steps", "1"]) == 0
    assert (wanted in capsys.readouterr().err) == (cores > 1)
    for chosen in (["--threads", "1"], ["--cores", "0"]):
        assert main([*command, *chosen]) == 0
        assert wanted not in capsys.readouterr().err
    every = f"host-cpu{{threads={useful}}}"
    odtc.compile(digits.model, every, batch=BATCH).save(here / "one.odtc")
    assert main(command) == 0
    assert "of the" not in capsys.readouterr().err


@pytest.mark.parametrize("command", ["train", "profile"])
def test_steps_of_a_call_are_told_to_be_of_devices(
    digits: Digits, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    more = ["--data", str(digits.train), "--lr", "0.1"] if command == "train" else []
    argv = [command, str(digits.artifact), "--steps", "2", "--threads", "1", *more]
    for steps, is_told in (("1", False), ("2", True)):
        assert main([*argv, "--steps-per-call", steps]) == 0
        said = " ".join(capsys.readouterr().err.split())
        assert ("note: --steps-per-call changes nothing" in said) == is_told


def test_arrays_that_are_no_input_and_no_label_are_named(
    digits: Digits, here: Path, capsys: pytest.CaptureFixture[str]
):
    with np.load(digits.train) as file:
        np.savez("more.npz", ids=np.arange(200), names=np.array(["a"], object), **dict(file))
    argv = ["train", str(digits.artifact), "--data", "more.npz", "--steps", "1", "--lr", "0.1"]
    assert main(argv) == 0
    assert (
        "note: more.npz: not read, as they are neither inputs nor labels: ids, names; the step "
        "takes image, label"
    ) in " ".join(capsys.readouterr().err.split())
    assert main([*argv[:3], str(digits.train), *argv[4:]]) == 0
    assert "not read" not in capsys.readouterr().err


def test_a_resumed_run_takes_the_same_steps(digits: Digits, here: Path, run_json):
    """It is cut in the middle of an epoch; the losses are equal to the last bit."""
    options = ("--lr", "0.05", "--seed", "3")
    losses = {}
    for steps in (30, 31):
        losses[steps] = run_json(
            *trained(digits, *options, "--steps", str(steps), "--checkpoint", f"whole{steps}")
        )["loss"]
    parts = trained(digits, *options, "--checkpoint", "parts")
    run_json(*parts, "--steps", "17")
    for steps, taken in ((30, 13), (31, 1)):
        summary = run_json(*parts, "--steps", str(steps), "--resume")
        assert (summary["steps"], summary["steps_taken"]) == (steps, taken)
        assert summary["loss"] == losses[steps]
        assert_equal_files(Path("parts"), Path(f"whole{steps}"))


def assert_equal_files(one: Path, other: Path) -> None:
    first, second = load_file(one), load_file(other)
    assert first.keys() == second.keys()
    for name, value in first.items():
        np.testing.assert_array_equal(value, second[name], name)


def test_a_finished_run_has_nothing_to_resume(digits: Digits, here: Path, run_json):
    run = trained(digits, "--lr", "0.05", "--steps", "3", "--checkpoint", "c")
    run_json(*run)
    summary = run_json(*run, "--resume")
    assert (summary["steps"], summary["steps_taken"], summary["loss"]) == (3, 0, None)
    assert "step_ms" not in summary


def test_the_seed_orders_the_samples(digits: Digits, run_json):
    first, second, again = (
        run_json(*trained(digits, "--lr", "0.05", "--steps", "3", "--seed", seed))["loss"]
        for seed in ("1", "2", "1")
    )
    assert first == again != second


def test_ctrl_c_saves_the_checkpoint_and_the_run_can_go_on(digits: Digits, here: Path, run_json):
    options = ("--lr", "0.01", "--checkpoint", "c", "--checkpoint-every", "5")
    process = subprocess.Popen(
        [sys.executable, "-m", "odtc", *trained(digits, *options, "--steps", "1000000")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_for(Path("c"), process)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=300)
    assert process.returncode == ExitCode.INTERRUPTED
    assert not out
    assert "saved c; run the same command with --resume to go on" in err
    steps = int(err.split("interrupted after step ")[1].split()[0])
    total = str(steps + 4)
    summary = run_json(*trained(digits, *options, "--steps", total, "--resume"))
    assert summary["steps_taken"] == 4
    whole = run_json(*trained(digits, *options[:2], "--steps", total))
    assert summary["loss"] == whole["loss"]


def test_a_ctrl_c_that_tvm_turns_into_an_error_is_one(monkeypatch, capsys):
    def interrupted(_: object) -> int:
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise RuntimeError from None
        return 0

    monkeypatch.setattr(targets_command, "run", interrupted)
    before = signal.getsignal(signal.SIGINT)
    assert main(["targets"]) == ExitCode.INTERRUPTED
    assert capsys.readouterr() == ("", "interrupted\n")
    assert signal.getsignal(signal.SIGINT) == before


def test_the_second_ctrl_c_does_not_wait():
    with interruption(at_once=False) as asked:
        signal.raise_signal(signal.SIGINT)
        assert asked.number == signal.SIGINT
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def wait_for(path: Path, process: subprocess.Popen) -> None:
    end = time.monotonic() + 300
    while not path.exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.fixture
def device() -> Iterator[str]:
    """The URL of an RPC server on this machine that says nothing of itself."""
    from tvm.rpc.server import Server
    from tvm.rpc.tracker import Tracker

    tracker = Tracker(host="127.0.0.1", port=9700, port_end=9800, silent=True)
    server = Server(
        *("127.0.0.1", 9600, 9700), tracker_addr=("127.0.0.1", tracker.port), key="k", silent=True
    )
    # It is a process that imports TVM: a machine that is busy takes a while.
    deadline = time.monotonic() + START_SECONDS
    with tracker_at(("127.0.0.1", tracker.port), 60, "tracker") as asked:
        while not asked.devices():
            assert time.monotonic() < deadline
            time.sleep(0.1)
    yield f"rpc://127.0.0.1:{tracker.port}/k"
    server.terminate()
    tracker.terminate()


def test_a_device_takes_the_same_steps(digits: Digits, device: str, run_json):
    run = trained(digits, "--lr", "0.05", "--steps", "5")
    there = run_json(*run, "--device", device)
    assert there["loss"] == pytest.approx(run_json(*run)["loss"], rel=1e-5)
    assert there["emulated"] is False
    assert odtc.connect(device).info() == {"emulated": False}


def test_times_of_an_emulated_device_are_no_results(
    digits: Digits, monkeypatch, run_json, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(LocalSession, "info", lambda _: {"emulated": True})
    run = trained(digits, "--lr", "0.05", "--steps", "2")
    summary = run_json(*run)
    assert summary["emulated"] is True
    assert summary.keys() == {"steps", "steps_taken", "loss", "emulated", "history", "stopped"}
    assert main(run) == 0
    captured = capsys.readouterr()
    assert EMULATED in captured.out
    assert " ms" not in captured.out + captured.err


@pytest.mark.parametrize("option", ["--export", "--checkpoint"])
@pytest.mark.parametrize("what", ["data", "artifact"])
def test_what_is_read_is_not_replaced(
    digits: Digits, here: Path, capsys: pytest.CaptureFixture[str], option: str, what: str
):
    paths = {"artifact": here / "a.odtc", "data": here / "d.npz"}
    shutil.copy(digits.artifact, paths["artifact"])
    np.savez(paths["data"], x=np.zeros((32, 1, 8, 8), np.float32), y=np.zeros(32, np.int64))
    before = paths[what].read_bytes()
    argv = ["train", paths["artifact"], "--data", paths["data"], "--steps", 1, "--lr", 0.1]
    assert main([*map(str, argv), option, str(paths[what])]) == ExitCode.USAGE
    assert "would replace what the run reads" in capsys.readouterr().err
    assert paths[what].read_bytes() == before
