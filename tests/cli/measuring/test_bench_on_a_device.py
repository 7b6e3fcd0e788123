"""`odtc bench --device`: a suite on a device, and the file that can be sent."""

import json
from pathlib import Path

import pytest

from odtc.cli.main import main
from odtc.core.errors import ExitCode
from tests.runtime_rpc.own_server import NATIVE, serving

ROOT = Path(__file__).parents[3]
SUITE = f"""
title = "Digits"
make = ["-m", "tests.comparison.make_digits"]
root = "{ROOT}"
batches = [4, 8]
models = ["Digits"]
memory_limit = "8GB"
"""
FAST = ["--threads", "1", "--steps", "2", "--rounds", "2"]


@pytest.fixture
def suite(here: Path) -> Path:
    path = here / "own.toml"
    path.write_text(SUITE)
    return path


def test_a_suite_is_measured_on_a_device_once(suite: Path, tmp_path: Path, run_json) -> None:
    with serving(tmp_path / "sessions", server=NATIVE) as url:
        argv = ["bench", "--suite", suite, "--device", url, "--target", "host-cpu", *FAST]
        rows = run_json(*argv, "-o", "device.jsonl")["rows"]
        assert run_json(*argv, "-o", "device.jsonl")["rows"] == rows
    assert [(row["round"], row["configuration"]["batch"]) for row in rows] == [
        (0, 4),
        (0, 8),
        (1, 8),
        (1, 4),
    ]
    assert {(row["configuration"]["cores"], row["clock"], row["reason"]) for row in rows} == {
        ("big", "device", "")
    }
    assert all(len(row["seconds"]) == 2 for row in rows)
    text = Path("device.jsonl").read_text()
    (head,) = json.loads(text.splitlines()[0]).values()
    assert head["device"]["machine"] == "x86_64"
    assert head["device"]["emulated"] is False
    assert url not in text


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--device", "adb://x", "--with", "pytorch"], "--with compares engines on this machine"),
        (["--device", "adb://x", "--limit", "9", "--roofline"], "leave out --roofline, --limit"),
        (["--target", "android-cpu"], "--target needs --device"),
        (
            ["--device", "adb://x", "--target", "android-opencl", "--threads", "1"],
            "threads would change nothing: android-opencl computes on a GPU",
        ),
    ],
)
def test_options_of_the_other_kind_are_refused(suite: Path, words, says: str, capsys) -> None:
    assert main(["bench", "--suite", str(suite), *words]) == ExitCode.USAGE
    assert says in capsys.readouterr().err
