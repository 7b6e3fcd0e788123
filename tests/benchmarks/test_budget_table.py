"""The table of budgets: all ways of one small network, from compiling to the picture."""

import argparse
import json

import pytest

from benchmarks.budget import __main__ as command_line
from benchmarks.budget.__main__ import peers, shares, totals
from benchmarks.budget.report import failures, way_table
from benchmarks.budget.ways import BudgetWay, NetworkWays
from benchmarks.memory.rows import ORT, TORCH
from benchmarks.step_time.compare import StepComparison, Timing
from benchmarks.step_time.engines import OURS
from odtc.comparison.measures.workload import StepWork


@pytest.mark.slow
def test_a_network_is_run_in_all_ways(tmp_path, monkeypatch, capsys):
    files = ("--json", str(tmp_path / "x.json"), "--picture", str(tmp_path / "x.svg"))
    options = ("--networks=digits", "--batch=32", "--runs=1", "--steps=2", "--shares=0.9")
    options += ("--totals=1MB", "--levers=file,float16")
    monkeypatch.setattr("sys.argv", ["budget", *options, *files])
    assert command_line.main() == 0
    (found,) = json.loads((tmp_path / "x.json").read_text())["networks"]
    ways = {way["name"]: way for way in found["ways"]}
    budgets = [
        f"{OURS}, {budget}{way}"
        for budget in ("976.6 KiB", "90%")
        for way in ("", ", file", ", float16")
    ]
    assert list(ways) == [OURS, *budgets, TORCH, ORT]
    within = ways[f"{OURS}, 976.6 KiB"]["plan"]
    assert within["arena"] + within["parameters"] + within["optimizer"] <= 1_000_000
    whole, less = ways[OURS]["plan"], ways[f"{OURS}, 90%"]
    assert less["plan"]["arena"] + less["plan"]["optimizer"] <= less["budget"]
    assert less["budget"] == int(0.9 * whole["arena"])
    timings = {timing["engine"]: timing for timing in found["comparison"]["timings"]}
    for name in (OURS, *budgets, TORCH):
        assert len(timings[name]["seconds"]) == 2
        assert timings[name]["losses"] == pytest.approx(timings[OURS]["losses"], rel=1e-4)
        (sample,) = ways[name]["samples"]
        assert sample["imported"] < sample["peak"]
    printed = capsys.readouterr().out
    assert printed.index("losses of the first steps") < printed.index("beyond")
    assert "</svg>" in (tmp_path / "x.svg").read_text()


def test_a_budget_that_cannot_be_met_says_why():
    ways = [
        BudgetWay(OURS),
        BudgetWay(f"{OURS}, 1%", 100, failure="the step needs at least 200 bytes"),
    ]
    comparison = StepComparison("digits", 8, 1, 0.01, StepWork(1, 1), (0.0, 0.0), [Timing(OURS)])
    found = [NetworkWays(comparison, ways)]
    assert failures(found) == ["digits, odtc, 1%: the step needs at least 200 bytes"]
    assert way_table(found).row_count == 2


def test_shares():
    assert shares("0.5,0.25") == [0.5, 0.25]
    assert shares("none") == []
    for text in ("1.5", "0", "half", ""):
        with pytest.raises(argparse.ArgumentTypeError, match="are not shares between 0 and 1"):
            shares(text)


def test_peers():
    assert peers("all") == [TORCH, ORT]
    assert peers("none") == []
    with pytest.raises(argparse.ArgumentTypeError, match="no peer 'jax'; there are"):
        peers("jax")


def test_totals():
    assert totals("2GiB,1MB") == [2 << 30, 1_000_000]
    with pytest.raises(argparse.ArgumentTypeError, match="not a positive number of bytes"):
        totals("2GiB,few")


@pytest.mark.slow
def test_budgets_alone(tmp_path, monkeypatch, capsys):
    files = ("--json", str(tmp_path / "x.json"), "--picture", str(tmp_path / "x.svg"))
    options = ("--networks=digits", "--batch=32", "--runs=1", "--shares=none", "--totals=1MB")
    monkeypatch.setattr("sys.argv", ["budget", *options, "--only-budgets", *files])
    assert command_line.main() == 0
    (found,) = json.loads((tmp_path / "x.json").read_text())["networks"]
    (way,) = found["ways"]
    assert way["plan"]["arena"] + way["plan"]["parameters"] <= 1_000_000
    (sample,) = way["samples"]
    assert len(sample["losses"]) == 3
    assert found["comparison"]["timings"] == []
