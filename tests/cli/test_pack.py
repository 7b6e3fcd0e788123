"""`odtc pack`: what it prints, what it writes, and how it ends."""

import csv
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks.packing.inputs import CAPACITY, FOLDER
from odtc.cli.main import main
from odtc.core.errors import ExitCode

SMALL = FOLDER / "input.12.csv"
HARD = FOLDER / f"D.{CAPACITY}.csv"


def pack(*options: str | Path) -> int:
    return main(["pack", *map(str, options)])


def test_a_plan_is_written_and_told(here: Path, capsys: pytest.CaptureFixture[str]):
    assert pack(SMALL, "-o", "plan.csv") == 0
    rows = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert rows["plan"] == "plan.csv"
    assert rows["height"] == "12 bytes"
    assert rows["lower"] == "bound     12 bytes"
    assert rows["gap"] == "0 bytes, 0.00%"
    assert rows["proven"] == "optimal  yes"
    with open("plan.csv", newline="") as file:
        plan = list(csv.DictReader(file))
    with open(SMALL, newline="") as file:
        asked = list(csv.DictReader(file))
    assert [{k: v for k, v in row.items() if k != "offset"} for row in plan] == asked
    assert max(int(row["offset"]) + int(row["size"]) for row in plan) == 12


def test_the_numbers_as_json(here: Path, run_json):
    told = run_json("pack", SMALL, "-o", "plan.csv", "--capacity", 12, "--time-limit", 5)
    assert told.pop("seconds") < 60
    assert told == {
        "plan": "plan.csv",
        "buffers": 5,
        "height": 12,
        "lower_bound": 12,
        "gap": 0,
        "proven_optimal": True,
    }


def test_a_capacity_is_enough(here: Path, run_json):
    told = run_json("pack", HARD, "-o", "plan.csv", "--capacity", CAPACITY)
    assert told["lower_bound"] < told["height"] <= CAPACITY
    assert told["gap"] == told["height"] - told["lower_bound"]
    assert not told["proven_optimal"]


def test_the_time_limit_is_kept(here: Path, run_json):
    # What no search of hours would end.
    assert 0.3 < run_json("pack", HARD, "-o", "p.csv", "--time-limit", 1)["seconds"] < 60


def test_what_does_not_fit_writes_nothing(here: Path, capsys: pytest.CaptureFixture[str]):
    Path("plan.csv").write_text("an older one")
    assert pack(SMALL, "-o", "plan.csv", "--capacity", "11") == ExitCode.BUDGET
    assert not capsys.readouterr().out
    assert Path("plan.csv").read_text() == "an older one"


def test_ctrl_c_leaves_nothing(here: Path):
    command = [sys.executable, "-m", "odtc", "pack", HARD, "-o", "plan.csv"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "pack 213 buffers\n"
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == "interrupted\n"
        assert process.wait(timeout=300) == ExitCode.INTERRUPTED
    assert not list(here.iterdir())


def test_nothing_heavy_is_imported(here: Path):
    code = (
        "import sys\nfrom odtc.cli.main import main\n"
        f"assert not main(['pack', {str(SMALL)!r}, '-o', 'p.csv'])\n"
        "print(*({m.split('.')[0] for m in sys.modules} & {'tvm', 'onnx', 'torch'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == ""
