"""The command line: what each command prints, where, and what it exits with."""

import errno
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from rich.console import Console
from safetensors.numpy import load_file

import odtc
from benchmarks.models.digits import bn_model
from odtc.cli import console as console_module
from odtc.cli import targets as targets_command
from odtc.cli.console import progress_of, readable_bytes, stages
from odtc.cli.interrupts import interruption
from odtc.cli.main import build_parser, exit_codes, main
from odtc.cli.train import EMULATED
from odtc.core.errors import ExitCode, UsageError
from odtc.runtime_rpc.session import LocalSession
from tests.cli.digits import BATCH, SAMPLES, Digits

ODTC = (sys.executable, "-m", "odtc")
# A process that pytest's parent lets ignore interrupts would pass that on.
INTERRUPTIBLE = (
    "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler);"
    "from odtc.cli.main import main; sys.exit(main())"
)
PER_EPOCH = SAMPLES // BATCH


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run_json(capsys: pytest.CaptureFixture[str]):
    """Runs a command with --json and gives the object that it prints."""

    def run(*argv: str | Path, code: int = ExitCode.OK) -> dict[str, Any]:
        assert main([*map(str, argv), "--json"]) == code
        return json.loads(capsys.readouterr().out)

    return run


def python(code: str) -> str:
    """Standard output of a fresh interpreter."""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout


def trained(digits: Digits, *options: str | Path) -> list[str]:
    return [str(part) for part in ("train", digits.artifact, "--data", digits.train, *options)]


# ---------------------------------------------------------------- help, version and imports


def test_help_comes_at_once_and_lists_the_exit_codes():
    seconds = []
    for _ in range(5):
        began = time.perf_counter()
        done = subprocess.run([*ODTC, "--help"], capture_output=True, text=True, check=True)
        seconds.append(time.perf_counter() - began)
    assert min(seconds) < 0.3
    assert not done.stderr
    for code, text in exit_codes().items():
        assert f"{code:>5}  {text}\n" in done.stdout


def test_every_exit_code_is_explained():
    assert list(exit_codes()) == list(ExitCode)
    assert all(text.endswith(".") for text in exit_codes().values())


def test_the_parser_is_built_without_anything_heavy():
    code = "import sys, odtc.cli.main as m; m.build_parser(); print(*sys.modules)"
    heavy = {"tvm", "tvm_ffi", "onnx", "numpy", "rich", "safetensors"}
    assert not heavy & set(python(code).split())


def test_version(capsys: pytest.CaptureFixture[str]):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"odtc {odtc.__version__}\n"


def test_options_are_not_abbreviated():
    with pytest.raises(UsageError, match="unrecognized arguments: --js"):
        build_parser().parse_args(["targets", "--js"])


# ---------------------------------------------------------------- compile, inspect, targets, check


def test_compile_prints_the_path_alone(digits: Digits, here: Path):
    done = subprocess.run(
        [*ODTC, "compile", digits.model, "--batch", "2", "--train", "fc*"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "d.odtc\n"
    assert [path.name for path in here.iterdir()] == ["d.odtc"]
    *steps, summary = done.stderr.splitlines()
    assert steps[:2] == ["load the compiler", "read the model"]
    assert "batch 2: 4 of 8 weight tensors are trained; parameters 149.5 KiB" in summary


def test_compile_with_options(digits: Digits, here: Path, run_json):
    optimizer = "sgd{momentum=0.5,weight-decay=1e-4}"
    made = run_json(
        *("compile", digits.model, "--shape", "N=3", "--optimizer", optimizer, "-o", "x.odtc")
    )
    assert made["artifact"] == "x.odtc"
    assert made["batch"] == 3
    assert made["optimizer"] == {
        "name": "sgd",
        "momentum": 0.5,
        "weight_decay": 1e-4,
        "dampening": 0.0,
        "nesterov": False,
    }
    assert made == run_json("inspect", "x.odtc")


def test_compile_says_what_is_trained_in_part(digits: Digits, here: Path, run_json, capsys):
    choices = ("bias", "sparse{layers=conv2.*,channels=0.25}")
    made = run_json(
        *("compile", digits.model, "--batch", "2", "--train", *choices, "--freeze", "fc?.bias")
    )
    assert made["tensors"] == {"trained": 3, "frozen": 5, "statistics": 0}
    (block,) = made["blocks"].values()
    assert (block["axis"], block["size"]) == (0, 8)
    assert made == run_json("inspect", "d.odtc")
    assert main(["inspect", "d.odtc"]) == 0
    assert "conv2.weight: channels " in capsys.readouterr().out


def test_adapters_are_compiled_trained_and_exported(digits: Digits, here: Path, run_json, capsys):
    lora = "rank=4,alpha=8,targets=conv2.*|fc1.*"
    made = run_json("compile", digits.model, "--batch", "16", "--lora", lora)
    assert made["tensors"] == {"trained": 4, "frozen": 8, "statistics": 0}
    assert [item["weight"] for item in made["adapters"]] == ["conv2.weight", "fc1.weight"]
    assert {item["scale"] for item in made["adapters"]} == {2.0}
    run_json(
        *("train", "d.odtc", "--data", digits.train, "--lr", "0.05", "--steps", "3"),
        *("--export", "merged.onnx", "--export-adapters", "a.safetensors"),
    )
    assert {name: value.shape for name, value in load_file("a.safetensors").items()} == {
        "base_model.model.conv2.lora_A.weight": (4, 16, 3, 3),
        "base_model.model.conv2.lora_B.weight": (32, 4, 1, 1),
        "base_model.model.fc1.lora_A.weight": (4, 512),
        "base_model.model.fc1.lora_B.weight": (64, 4),
    }
    before, after = onnx.load(digits.model).graph, onnx.load("merged.onnx").graph
    assert list(before.node) == list(after.node)
    changed = [b.name for b, a in zip(before.initializer, after.initializer, strict=True) if a != b]
    assert changed == ["conv2.weight", "fc1.weight"]
    assert main(["inspect", "d.odtc"]) == 0
    assert "fc1.weight, rank 4, scale 2" in capsys.readouterr().out


def test_inspect(digits: Digits, capsys: pytest.CaptureFixture[str]):
    assert main(["inspect", str(digits.artifact)]) == 0
    text = capsys.readouterr().out
    rows = {line[: line.index("  ")]: line.split("  ")[-1].strip() for line in text.splitlines()}
    optimizer = "sgd{momentum=0.9,weight-decay=0.0,dampening=0.0,nesterov=false}"
    assert rows["optimizer"] == optimizer
    assert rows["input"] == f"image: float32[{BATCH}, 1, 8, 8]"
    assert rows["label"] == f"label: int32[{BATCH}], one of 10 classes"
    assert rows["tensors"] == "8 trained, 0 frozen, 0 statistics"
    assert rows["parameters"] == "149.5 KiB (153,128 bytes)"


def test_everything_around_the_optimizer(
    digits: Digits, here: Path, run_json, capsys: pytest.CaptureFixture[str]
):
    made = run_json(
        *("compile", digits.model, "--batch", BATCH, "--optimizer", "adamw", "--ema", "0.9"),
        *("--group", "*.bias{weight-decay=0}", "conv*{lr-factor=0.5}", "--clip-norm", "1"),
        *("--accumulate", "4", "--loss-scale", "dynamic{initial=1024}", "-o", "x.odtc"),
    )
    assert made["update"] == {
        "groups": [
            {"glob": "*.bias", "options": {"weight_decay": 0.0}, "lr_factor": 1.0},
            {"glob": "conv*", "options": {}, "lr_factor": 0.5},
        ],
        "clip_value": None,
        "clip_norm": 1.0,
        "accumulate": 4,
        "ema": 0.9,
        "loss_scale": {"initial": 1024.0, "growth": 2.0, "backoff": 0.5, "interval": 2000},
    }
    assert main(["inspect", "x.odtc"]) == 0
    text = capsys.readouterr().out
    for row in (
        "optimizer              adamw{beta1=0.9,beta2=0.999,eps=1e-08,weight-decay=0.01}",
        "group                  *.bias{weight-decay=0.0,lr-factor=1.0}",
        "group                  conv*{lr-factor=0.5}",
        "clip norm              1.0",
        "accumulate             4",
        "ema                    0.9",
        "loss scale             dynamic{initial=1024.0,growth=2.0,backoff=0.5,interval=2000}",
    ):
        assert row in text.splitlines()
    trained = run_json(
        *("train", "x.odtc", "--data", digits.train, "--epochs", 8, "--lr", 0.02, "--ema"),
        *("--schedule", "cosine", "--warmup", 4, "--eval-data", digits.test, "--export", "e.onnx"),
    )
    assert trained["steps"] == 8 * (SAMPLES // BATCH)
    assert trained["accuracy"] > 0.5


def test_schedule_reaches_the_steps(digits: Digits, here: Path, run_json):
    """With a learning rate of 0 from the second step on, one step is all that is done."""
    first = run_json(
        *("train", digits.artifact, "--data", digits.train, "--lr", 0.1, "--steps", 1),
        *("--export", "first.onnx"),
    )
    run_json(
        *("train", digits.artifact, "--data", digits.train, "--lr", 0.1, "--steps", 9),
        *("--schedule", "cosine{steps=1}", "--export", "last.onnx"),
    )
    assert first["steps"] == 1
    assert Path("first.onnx").read_bytes() == Path("last.onnx").read_bytes()


def test_targets(run_json, capsys: pytest.CaptureFixture[str]):
    listed = {target["name"]: target for target in run_json("targets")["targets"]}
    assert listed["android-cpu"]["available"]
    assert not listed["android-opencl"]["available"]
    assert main(["targets"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(listed)
    for line, target in zip(lines, listed.values(), strict=True):
        assert f"  {target['reason'] or 'available'}  " in line


def test_check(digits: Digits, run_json):
    report = run_json("check", digits.model, "--all")
    assert report["trainable"]
    assert report["levels"] == {"trainable": 9, "forward-only": 0, "unsupported": 0}
    assert report["operators"][0] == {"op_type": "Relu", "count": 3, "level": "trainable"}
    assert len(report["nodes"]) == 9
    assert report["parameters"]["count"] == len(report["parameters"]["names"]) == 8
    assert report["parameters"]["bytes"] == 153_128


def test_check_counts_no_statistics_as_trainable(here: Path, run_json):
    onnx.save(bn_model(), "bn.onnx")
    names = run_json("check", "bn.onnx", "--all")["parameters"]["names"]
    assert "bn1.scale" in names
    assert "bn1.mean" not in names


def test_check_says_which_nodes_block(here: Path, run_json, capsys: pytest.CaptureFixture[str]):
    model = bn_model()
    model.graph.node[2].op_type = "Hardmax"
    onnx.save(model, "hardmax.onnx")
    report = run_json("check", "hardmax.onnx", code=ExitCode.UNSUPPORTED)
    assert not report["trainable"]
    assert [node["op_type"] for node in report["nodes"] if node["blocks"]] == ["Hardmax"]
    assert main(["check", "hardmax.onnx"]) == ExitCode.UNSUPPORTED
    captured = capsys.readouterr()
    assert captured.out.startswith("hardmax.onnx cannot be trained: 1 of 10 nodes block it\n")
    assert (
        "  -> relu1 (Hardmax)  forward-only  blocks  no gradient in this version\n" in captured.out
    )
    assert not captured.err


# ---------------------------------------------------------------- train


def test_train_counts_its_steps_and_evaluates(digits: Digits, here: Path, run_json):
    run = trained(digits, "--epochs", "3", "--lr", "0.05", "--eval-data", digits.test)
    summary = run_json(*run, "--export", "out.onnx")
    assert summary["steps"] == summary["steps_taken"] == 3 * PER_EPOCH
    assert 0.2 < summary["accuracy"] <= 1
    assert summary["step_ms"] > 0
    assert summary["samples_per_second"] == pytest.approx(1000 * BATCH / summary["step_ms"])
    assert summary["emulated"] is False
    exported = onnx.load(summary["exported"])
    onnx.checker.check_model(exported, full_check=True)
    assert (
        exported.graph.initializer[0].raw_data
        != onnx.load(digits.model).graph.initializer[0].raw_data
    )


def test_train_says_what_it_leaves_out(digits: Digits, capsys: pytest.CaptureFixture[str]):
    assert main(trained(digits, "--lr", "0.1", "--threads", "1")) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith(f"{PER_EPOCH} steps, loss ")
    assert captured.out.count("\n") == 1
    assert "each epoch leaves 8 of 200 samples out: they fill no batch" in captured.err


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
        [sys.executable, "-c", INTERRUPTIBLE, *trained(digits, *options, "--steps", "1000000")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_for(Path("c"), process)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
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
    with interruption(at_once=False) as event:
        signal.raise_signal(signal.SIGINT)
        assert event.is_set()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def wait_for(path: Path, process: subprocess.Popen) -> None:
    end = time.monotonic() + 60
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
    assert summary.keys() == {"steps", "steps_taken", "loss", "emulated"}
    assert main(run) == 0
    captured = capsys.readouterr()
    assert EMULATED in captured.out
    assert " ms" not in captured.out + captured.err


# ---------------------------------------------------------------- the error boundary


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (KeyboardInterrupt(), ExitCode.INTERRUPTED, "interrupted\n"),
        (BrokenPipeError(), ExitCode.OUTPUT, ""),
        (
            MemoryError(),
            ExitCode.INTERNAL,
            "error: out of memory\n  hint: use a smaller --batch, or a machine with more memory\n",
        ),
        (
            OSError(errno.ENOSPC, "No space left on device", "some/file"),
            ExitCode.OUTPUT,
            "error: cannot write: No space left on device\n  where: some/file\n"
            "  hint: make room; TMPDIR chooses another folder for temporary files\n",
        ),
        (
            RuntimeError("[red]a[/red]\nb"),
            ExitCode.INTERNAL,
            "internal error: RuntimeError: [red]a[/red] b\n"
            "  hint: set ODTC_TRACEBACK=1 to see the traceback\n",
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_boundary(error, code, text, monkeypatch, capsys: pytest.CaptureFixture[str]):
    def fail(_: object) -> int:
        raise error

    monkeypatch.setattr(targets_command, "run", fail)
    monkeypatch.delenv("ODTC_TRACEBACK", raising=False)
    assert main(["targets"]) == code
    assert capsys.readouterr() == ("", text)


def test_traceback_on_request(monkeypatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setattr(targets_command, "run", lambda _: 1 / 0)
    monkeypatch.setenv("ODTC_TRACEBACK", "1")
    assert main(["targets"]) == ExitCode.INTERNAL
    assert "Traceback (most recent call last)" in capsys.readouterr().err


def test_a_full_disk_behind_stdout_is_said_once():
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*ODTC, "targets"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == ExitCode.OUTPUT
    assert done.stderr.startswith("error: cannot write: No space left on device\n  hint: ")
    assert done.stderr.count("\n") == 2


def test_a_reader_that_leaves_is_no_error():
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as closed:
        done = subprocess.run(
            [*ODTC, "targets"], stdout=closed, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (done.returncode, done.stderr) == (ExitCode.OUTPUT, "")


# ---------------------------------------------------------------- the console


def terminal(monkeypatch, **environment: str) -> io.StringIO:
    """Makes stderr a terminal, and gives what is written there."""
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"TERM": "xterm", **environment}.items():
        monkeypatch.setenv(name, value)
    written = io.StringIO()
    fake = Console(file=written, force_terminal=True, width=100)
    monkeypatch.setattr(console_module, "console", lambda: fake)
    return written


def test_errors_are_red_unless_colour_is_unwanted(monkeypatch):
    written = terminal(monkeypatch)
    main(["nothing"])
    assert "\x1b[1;31merror\x1b[0m: " in written.getvalue()
    written = terminal(monkeypatch, NO_COLOR="1")
    main(["nothing"])
    assert "\x1b[1merror\x1b[0m: " in written.getvalue()


def test_a_terminal_sees_a_spinner_and_a_bar(monkeypatch):
    written = terminal(monkeypatch)
    with stages() as progress:
        progress("[stage]")
    with progress_of(4, 1) as update:
        update(4, "[loss] 0.5")
    assert "[stage]" in written.getvalue()
    assert "[loss] 0.5" in written.getvalue()
    assert "4/4" in written.getvalue()


def test_elsewhere_progress_is_a_line_now_and_then(monkeypatch, capsys):
    with progress_of(1000, 0) as update:
        for step in range(1, 1001):
            update(step, "loss 1")
    assert capsys.readouterr().err == "step 1000 of 1000: loss 1\n"
    monkeypatch.setattr(console_module, "PLAIN_SECONDS", 0)
    with progress_of(3, 0) as update:
        update(1, "loss 1")
    assert capsys.readouterr().err == "step 1 of 3: loss 1\n"


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1536, "1.5 KiB"),
        (5 << 20, "5.0 MiB"),
        (3 << 41, "6144.0 GiB"),
    ],
)
def test_readable_bytes(count: int, text: str):
    assert readable_bytes(count) == text
