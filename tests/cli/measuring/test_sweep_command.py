"""`odtc sweep`: rows that are kept, a sweep that goes on, and its tables."""

import functools
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from odtc.cli.main import main
from odtc.cli.measuring.sweep_tables import EMULATED, tables
from odtc.core.errors import ExitCode
from odtc.runtime_rpc.sweep.row import Configuration, SweepRow, results_of
from odtc.runtime_rpc.sweep.sweep import Sweep, SweepConfig
from tests.cli.training.digits import Digits
from tests.runtime_rpc.own_server import SERVERS, serving

FAST = ["--steps", "2", "--rounds", "2"]


def test_an_artifact_is_measured_in_turns_and_what_is_impossible_has_its_reason(
    digits: Digits, here: Path, run_json
) -> None:
    first = min(os.sched_getaffinity(0))
    argv = ["sweep", digits.artifact, *FAST, "--cores", str(first), "--threads", "1", "64"]
    rows = run_json(*argv)["rows"]
    assert [(row["round"], row["configuration"]["threads"]) for row in rows] == [
        (0, 1),
        (0, 64),
        (1, 1),
    ]
    assert [len(row["seconds"]) for row in rows] == [2, 0, 2]
    assert "threads 64 is above 8" in rows[1]["reason"]
    assert all(not row["emulated"] for row in rows)
    lines = Path("d.sweep.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines[1:]] == rows
    # What is there is not measured again; more rounds are.
    assert run_json(*argv)["rows"] == rows
    more = run_json(*argv[:4], "--rounds", "3", *argv[6:])["rows"]
    assert more[: len(rows)] == rows
    assert len(more) == len(rows) + 1


def test_an_interrupted_sweep_goes_on(
    digits: Digits, here: Path, monkeypatch: pytest.MonkeyPatch, run_json
) -> None:
    measured, count = Sweep._measured, 0

    def interrupted(self: Sweep, *arguments) -> SweepRow:
        nonlocal count
        count += 1
        if count == 2:
            raise KeyboardInterrupt
        return measured(self, *arguments)

    argv = ["sweep", str(digits.artifact), "--threads", "1", "--steps", "2", "--rounds", "3"]
    monkeypatch.setattr(Sweep, "_measured", interrupted)
    assert main(argv) == ExitCode.INTERRUPTED
    kept = Path("d.sweep.jsonl").read_text()
    assert len(kept.splitlines()) == 2
    assert len(run_json(*argv)["rows"]) == 3
    assert Path("d.sweep.jsonl").read_text().startswith(kept)
    assert count == 4


def test_a_model_is_compiled_for_each_batch(
    digits: Digits,
    here: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    batches = ["--batch", "2", "4", "--threads", "1", "--cooldown", "--frequency", "low"]
    steps = ["--steps", "1", "--rounds", "1", "--output", "rows"]
    # The frequencies of the machine that runs the tests are not theirs to set.
    elsewhere = functools.partial(SweepConfig, root=str(here / "nothing"))
    monkeypatch.setattr("odtc.runtime_rpc.sweep.sweep.SweepConfig", elsewhere)
    assert main(["sweep", str(digits.model), *batches, *steps]) == ExitCode.OK
    printed = capsys.readouterr().out
    head, row = printed.splitlines()[2:4]
    assert head.split() == ["model", "cores", "threads", "batch", "2", "batch", "4"]
    assert row.split()[:3] == ["d", "all", "1"]
    assert "frequency: not settable (" in printed


@pytest.mark.parametrize("server", SERVERS)
def test_a_device_is_measured_by_its_own_clock(
    server: str, digits: Digits, tmp_path: Path, run_json
) -> None:
    with serving(tmp_path / "sessions", server=server) as url:
        where = ["--device", url, "--threads", "1", "--output", tmp_path / "rows"]
        (row,) = run_json("sweep", digits.artifact, *where, "--steps", "2", "--rounds", "1")["rows"]
    assert row["clock"] == "device"
    assert len(row["seconds"]) == 2


def rows_of_a_phone() -> list[SweepRow]:
    one = Configuration("lenet", 4, "big", 1, "high")
    note = "the device is plugged in"
    return [
        SweepRow(one, 0, (0.002, 0.001, 0.003), energy=0.3, notes=("throttled: cpu4",)),
        SweepRow(replace(one, batch=8), 0, (0.004,), energy_note=note),
        SweepRow(replace(one, cores="little", batch=8), 0, reason="out of memory"),
    ]


def test_tables_have_a_column_for_each_batch() -> None:
    lines = tables(results_of(rows_of_a_phone()))
    assert lines[1].split()[:4] == ["model", "cores", "threads", "frequency"]
    assert "2.00 (1.00 to 3.00)" in lines[2]
    assert "4.00 (4.00 to 4.00)" in lines[2]
    assert lines[3].endswith("-")
    text = "\n".join(lines)
    assert "energy of a step, J" in text
    assert "0.1" in text
    assert "energy: the device is plugged in" in lines
    assert "lenet, batch 8, cores little, threads 1, high frequency: out of memory" in lines
    throttled = "lenet, batch 4, cores big, threads 1, high frequency, round 1: throttled: cpu4"
    assert lines[-1] == throttled


def test_emulated_times_are_not_shown() -> None:
    emulated = [replace(row, emulated=True) for row in rows_of_a_phone()]
    lines = tables(results_of(emulated))
    assert lines[0] == EMULATED
    assert not any(figure in line for line in lines for figure in ("2.00", "4.00", "0.1"))
