"""The table of memory plans: what it is made of, and what it says."""

import json

import pytest

from benchmarks.packing import __main__ as command_line
from benchmarks.packing.inputs import CHALLENGING, INPUTS, training_step
from benchmarks.packing.report import Packed, table_of


def run(monkeypatch, *options):
    monkeypatch.setattr("sys.argv", ["packing", *map(str, options)])
    return command_line.main()


def test_a_run_writes_numbers_and_a_picture(tmp_path, monkeypatch, capsys):
    files = ("--json", tmp_path / "new" / "x.json", "--picture", tmp_path / "x.svg")
    assert run(monkeypatch, "--inputs", "input.12,B,training-1000", *files) == 0
    out = capsys.readouterr().out
    assert "1 of 1 challenging inputs within 1,048,576 bytes" in out
    report = json.loads((tmp_path / "new" / "x.json").read_text())
    assert [item["name"] for item in report["inputs"]] == ["input.12", "B", "training-1000"]
    assert [item["height"] for item in report["inputs"]][:2] == [12, 1048576]
    assert report["machine"]["cores"] >= 1
    assert "proven optimal" in (tmp_path / "x.svg").read_text()


def test_a_plan_above_the_capacity_is_a_failure(tmp_path, monkeypatch):
    files = ("--json", tmp_path / "x.json", "--picture", tmp_path / "x.svg")
    assert run(monkeypatch, "--inputs", "K", "--steps", 1, *files) == 1


def test_unknown_inputs_are_refused(monkeypatch, capsys):
    with pytest.raises(SystemExit):
        run(monkeypatch, "--inputs", "Z")
    assert "no input 'Z'; there are input.12, A, B" in capsys.readouterr().err


def test_rows_say_what_is_proven():
    rows = [Packed("a", 3, 10, 11, False, 0.5), Packed("b", 3, 10, 10, True, 0.5)]
    ratio, proven = table_of(rows).columns[4:6]
    assert list(ratio.cells) == ["1.1000", "1.0000"]
    assert list(proven.cells) == ["", "optimal"]


def test_the_inputs_are_there():
    assert [len(INPUTS[name]()) for name in CHALLENGING] == [
        *(154, 170, 203, 213, 215, 296, 308, 316, 374, 409, 454)
    ]


def test_a_drawn_step_is_the_same_each_time():
    assert training_step(400, 3) == training_step(400, 3) != training_step(400, 4)
    step = training_step(400)
    assert len(step) == 400
    assert max(buffer.upper for buffer in step) == 200
    # At the turn most activations wait.
    assert 40 < sum(b.lower <= 99 < b.upper for b in step if b.id.startswith("activation")) < 80
