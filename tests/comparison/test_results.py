"""Results of rows over rounds, and the classification of engines' last lines."""

import pytest

from odtc.cli.measuring.compare_tables import summary, table
from odtc.comparison.comparison import Terms, entries_of, missing
from odtc.comparison.ours import is_gentle
from odtc.comparison.outcome import Outcome, outcome_of
from odtc.comparison.results import BUSY, by_setting, disturbed, results_of
from odtc.comparison.row import ComparisonRow, Setting, row_of
from odtc.comparison.worker import shortened

AT = Setting("net", 4, 1)


def row(engine, seconds, number=0, *, at=AT, outcome=Outcome.TRAINED, net=100_000_000, **more):
    """A row of times."""
    sizes = {"imported": 5, "ready": 6, "peak": 5 + net}
    times = {"seconds": tuple(seconds), "cpu_seconds": tuple(2 * each for each in seconds)}
    return ComparisonRow(at, number, engine, outcome, **times, **{**sizes, "flops": 10**9, **more})


def test_ratios_are_taken_turn_by_turn_over_all_rounds():
    rows = [
        *(row("odtc", [1.0, 2.0]), row("x", [2.0, 4.0])),
        *(row("odtc", [1.0, 4.0], 1), row("x", [2.1, 8.4], 1, net=400_000_000)),
    ]
    ours, other = results_of(rows)
    assert (ours.engine, ours.is_ours, other.is_ours) == ("odtc", True, False)
    assert ours.ratio.text() == "1.00 (1.00 to 1.00)"
    assert other.ratios == [[2.0, 2.0], [2.1, 2.1]]
    assert other.ratio.median == pytest.approx(2.05)
    assert other.is_steady
    assert other.net == 400_000_000
    assert other.memory_ratio == 4.0
    assert ours.throughput == 4 / 1.5
    assert ours.cores == 2.0
    assert ours.rate == pytest.approx(1e9 / 1.5)


def test_rounds_that_differ_are_told():
    rows = [
        *(row("odtc", [1.0]), row("x", [2.0])),
        *(row("odtc", [1.0], 1), row("x", [2.3], 1)),
    ]
    results = results_of(rows)
    assert not results[1].is_steady
    said = "net, batch 4, threads 1, x: rounds differ by more than 10%: the machine was too noisy"
    assert said in summary(results)
    assert not any("agree" in line for line in summary(results))


def test_rounds_that_agree_are_told():
    rows = [
        *(row("odtc", [1.0]), row("x", [2.0]), row("y", [1.0])),
        *(row("odtc", [1.0], 1), row("x", [2.1], 1), row("y", [1.02], 1)),
        *(row("odtc", [1.0], 2), row("x", [2.05], 2), row("y", [1.01], 2)),
    ]
    lines = summary(results_of(rows))
    assert "rounds agree: their ratios are within 5.0% of each other" in lines
    assert not any("noisy" in line for line in lines)
    # One round says nothing of this.
    assert not any("agree" in line or "noisy" in line for line in summary(results_of(rows[:3])))


def test_a_round_that_failed_gives_no_time():
    rows = [
        *(row("odtc", [1.0, 1.0]), row("x", [2.0], outcome=Outcome.CRASHED, reason="it died")),
        row("odtc", [1.0, 1.0], 1),
        row("x", [3.0, 3.0], 1),
    ]
    other = results_of(rows)[1]
    assert (other.outcome, other.reason) == (Outcome.CRASHED, "it died")
    assert other.seconds == [3.0, 3.0]
    assert other.ratios == [[3.0, 3.0]]
    failed = results_of(rows[:2])
    assert (
        failed[1].step is failed[1].ratio is failed[1].throughput is failed[1].memory_ratio is None
    )
    assert "crashed" in table(failed)[2]
    assert "net, batch 4, threads 1, x: crashed: it died" in summary(failed)


def test_losses_come_first():
    rows = [row("odtc", [1.0]), row("x", [2.0]), row("y", [0.5], net=50_000_000)]
    lines = summary(results_of(rows))
    assert lines[1:6] == [
        "time of a step: odtc loses 1 of 2; at worst net, batch 4, threads 1, y, 0.5 of odtc's",
        "memory, net of imports: odtc loses 1 of 2; at worst net, batch 4, threads 1, y, 0.5 of "
        "odtc's",
        "memory of the process in all: odtc loses 1 of 2; at worst net, batch 4, threads 1, y, "
        "0.5 of odtc's",
        "x takes 2.00 times odtc's time (geometric mean of 1)",
        "y takes 0.50 times odtc's time (geometric mean of 1)",
    ]


def test_a_busy_machine_is_told():
    quiet = row("odtc", [1.0], busy=(0.05, 0.02))
    assert disturbed([quiet, row("odtc", [1.0], busy=(BUSY,))]) == ""
    assert disturbed([quiet, row("odtc", [1.0], busy=(BUSY + 0.01,))])
    rows = [quiet, row("odtc", [1.0], busy=(0.05, 0.4), at=Setting("net", 4, 2))]
    assert disturbed(rows) == (
        "other programs kept up to 40% of the cores busy; "
        "do not trust the times of net, batch 4, threads 2"
    )
    assert summary(results_of(rows))[-1] == disturbed(rows)


def test_settings_are_told_apart():
    other = Setting("net", 8, 1)
    rows = [
        row("odtc", [1.0]),
        row("odtc", [1.0], at=other),
        row("x", [1.0]),
        row("x", [1.0], at=other),
    ]
    groups = by_setting(results_of(rows))
    assert [(at, [it.engine for it in each]) for at, each in groups] == [
        (AT, ["odtc", "x"]),
        (other, ["odtc", "x"]),
    ]


def test_rows_read_back_as_they_are():
    one = row("odtc", [1.0], losses=(2.0, 1.0), busy=(0.1, 0.2), outcome=Outcome.MEMORY)
    assert row_of(one.to_dict()) == one


def test_what_has_rows_is_not_measured_again():
    terms = Terms([1, 2], [1], entries_of(["x"], []), 5, 2, 60)
    done = [row("odtc", [1.0], at=Setting("net", 1, 1)), row("x", [1.0], at=Setting("net", 1, 1))]
    assert [(n, at.batch) for n, at in missing("net", terms, done)] == [(0, 2), (1, 1), (1, 2)]


def test_odtc_comes_first_and_each_once():
    names = [each.name for each in entries_of(["x", "odtc", "x"], ["1MB", "1MB"])]
    assert names == ["odtc", "odtc, 1MB", "x"]


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("MemoryError: ", Outcome.MEMORY),
        ("terminate called after throwing an instance of 'std::bad_alloc'", Outcome.MEMORY),
        (
            "RuntimeError: [enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: "
            "can't allocate memory: you tried to allocate 34359738368 bytes.",
            Outcome.MEMORY,
        ),
        ("ModuleNotFoundError: No module named 'MNN'", Outcome.MISSING),
        ("MissingPackageError: the package highspy is not installed", Outcome.MISSING),
        ("UnsupportedError: 3 nodes cannot be trained", Outcome.UNSUPPORTED),
        ("BudgetError: no plan", Outcome.BUDGET),
        ("ValueError: MNN has no gradient of a GlobalAveragePool inside", Outcome.UNSUPPORTED),
        ("RuntimeError: LSTMGrad kernel only supports the forward direction", Outcome.UNSUPPORTED),
        ("ValueError: something else", Outcome.FAILED),
    ],
)
def test_last_words(text, outcome):
    assert outcome_of(text) is outcome


def test_a_rate_is_gentle_where_losses_stay():
    assert is_gentle([2.0, 1.99, 1.981])
    assert not is_gentle([2.0, 1.99, 1.97])
    assert not is_gentle([2.0, float("inf")])
    assert not is_gentle([float("nan"), 1.0])


def test_the_end_of_a_long_reason_is_kept():
    text = "RuntimeError: " + "x" * 500 + " no such operator"
    found = shortened(text)
    assert len(found) < 310
    assert found.startswith("RuntimeError: xx")
    assert found.endswith(" no such operator")
    assert shortened("short") == "short"
