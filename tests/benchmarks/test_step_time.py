"""The comparison with peers: parity first, then in turns; its table and its picture."""

import json
import math

import pytest

from benchmarks import step_time
from benchmarks.measure import Spread, busy_share, machine, spread, versions
from benchmarks.step_time import Comparison, Timing


class Fake:
    """An engine that notes its steps in a common list."""

    def __init__(self, name, losses, order):
        self._name, self._losses, self._order = name, iter(losses), order

    def step(self, x, y):
        self._order.append(self._name)
        return next(self._losses, 0.5)


def broken(case, folder):
    raise RuntimeError("it has no operator X\nand says so at length")


@pytest.fixture
def order(monkeypatch):
    """Four engines: odtc, one that agrees, one that does not, one that cannot."""
    order = []
    losses = {"odtc": [2.0, 1.5, 1.0], "same": [2.0, 1.5, 1.001], "other": [2.0, 1.5, 1.1]}
    engines = {
        name: lambda case, folder, name=name: Fake(name, losses[name], order) for name in losses
    }
    monkeypatch.setattr(step_time, "ENGINES", engines | {"broken": broken})
    monkeypatch.setattr(step_time, "PAUSE_SECONDS", 0.0)
    return order


@pytest.fixture
def comparison(order, tmp_path):
    return step_time.compare(step_time.case_of("digits", 1, 4), 2, tmp_path)


def test_engines_take_turns(order, comparison):
    parity = ["odtc"] * 3 + ["same"] * 3 + ["other"] * 3
    turn = ["odtc", "odtc", "same", "same"]
    assert order == parity + turn * 2
    assert [len(timing.seconds) for timing in comparison.timings] == [2, 2, 0, 0]


def test_a_mismatch_ends_the_comparison(comparison):
    reasons = [timing.skipped for timing in comparison.timings]
    assert reasons == [
        "",
        "",
        "its losses are 2.0000, 1.5000, 1.1000; those of odtc are 2.0000, 1.5000, 1.0000",
        "RuntimeError: it has no operator X",
    ]


def test_a_loss_that_is_not_a_number_is_a_mismatch():
    assert step_time.disagreement([math.nan] * 3, [1.0] * 3)


def test_odtc_itself_may_not_fail(monkeypatch, tmp_path):
    monkeypatch.setattr(step_time, "ENGINES", {"odtc": broken})
    with pytest.raises(RuntimeError, match="no operator X"):
        step_time.compare(step_time.case_of("digits", 1, 4), 1, tmp_path)


def test_ratios_are_taken_turn_by_turn():
    ours, peer = Timing("odtc", seconds=[1.0, 2.0, 4.0]), Timing("peer", seconds=[2.0, 4.0, 8.0])
    assert step_time.ratio(peer, ours) == Spread(2.0, 2.0, 2.0)


def test_results_are_written(tmp_path):
    timings = [Timing("odtc", seconds=[1.0, 2.0]), Timing("PyTorch", skipped="why not")]
    comparisons = [Comparison("digits", 4, 2, 0.01, (0.0, 0.1), timings)]
    table = step_time.table_of(comparisons)
    assert table.row_count == 2
    step_time.draw(comparisons, "a machine", tmp_path / "new" / "x.svg")
    assert "</svg>" in (tmp_path / "new" / "x.svg").read_text()
    step_time.write_json(comparisons, {"machine": machine()}, tmp_path / "x.json")
    report = json.loads((tmp_path / "x.json").read_text())
    assert report["comparisons"][0]["timings"][0]["seconds"] == [1.0, 2.0]
    assert report["machine"]["cores"] >= 1


def test_spread_is_median_and_quartiles():
    assert spread([4.0, 1.0, 2.0, 3.0, 5.0]) == Spread(3.0, 2.0, 4.0)
    assert Spread(0.003, 0.002, 0.004).text(scale=1e3, digits=1) == "3.0 (2.0 to 4.0)"


def test_versions_and_load_are_said():
    assert versions()["apache-tvm"].startswith("0.27.0")
    assert 0.0 <= busy_share(0.1) <= 1.0
