"""What is compared with odtc, and by what."""

import io

import pytest
from rich.console import Console

from benchmarks.arm.cores import CORES
from benchmarks.arm.figures import Figures, Profile, floor
from benchmarks.arm.instructions import Kind
from benchmarks.arm.report import Row, figures_of, summary, table_of
from benchmarks.arm.sides import Side
from benchmarks.pages.result import Result
from benchmarks.pages.rows.arm import networks

CORE = CORES["Cortex-A76"]
LOSSES = [2.0, 1.5, 1.0, 0.5]


def side(name: str, losses: list[float] = LOSSES, cycles: float = 100.0, missed: int = 0) -> Side:
    """One whose last step has so many cycles, and misses so many lines of the first level."""
    last = Figures(pipeline=cycles, missed=(missed, 0, 0))
    last.kinds[Kind.LOAD] = 1
    return Side(name, losses, [Profile(Figures(pipeline=1e9), {}), Profile(last, {})])


def row(*sides: Side, model: str = "lenet") -> Row:
    return Row(model, 4, CORE, 1000, sides)


def printed(one: Row) -> str:
    console = Console(file=io.StringIO(), width=300)
    console.print(table_of([one]))
    return console.file.getvalue()  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize("step", range(4))
def test_a_loss_of_any_step_that_is_not_odtcs_is_told(step: int) -> None:
    losses = list(LOSSES)
    losses[step] *= 1.0002
    wrong = row(side("odtc"), side("MNN", losses), side("PyTorch"))
    assert not wrong.is_right
    assert f"losses {losses} are not odtc's" in printed(wrong)
    # It is left out of ratios, and the other one is not.
    assert wrong.ratios() == (1.0, 1.0)
    losses[step] = LOSSES[step] * 1.00005
    assert row(side("odtc"), side("MNN", losses)).is_right


def test_losses_that_are_not_finite_are_not_compared() -> None:
    bad = [2.0, float("nan"), 1.0, 0.5]
    for one in (row(side("odtc"), side("MNN", bad)), row(side("odtc", bad), side("MNN", bad))):
        assert not one.is_right
        assert one.ratios() is None


def test_losses_that_no_update_moves_are_not_compared() -> None:
    still = [2.0, 2.0001, 2.0, 2.0]
    one = row(side("odtc", still), side("MNN", still))
    assert one.ratios() is None
    assert not one.is_right
    assert "the updates move no loss" in printed(one)
    assert not list(summary([one]))


def test_peers_of_a_step_that_odtc_failed_at_are_shown() -> None:
    one = row(Side("odtc", skipped="no kernel for it"), side("MNN"))
    assert not one.is_right
    assert one.ratios() is None
    text = printed(one)
    assert "no kernel for it" in text
    assert "odtc was not counted" in text
    assert [each["skipped"] for each in figures_of([one])] == ["no kernel for it", ""]


def test_odtc_alone_and_peers_that_were_not_counted_are_right() -> None:
    assert row(side("odtc"), Side("MNN", skipped="it cannot train it")).is_right


def test_the_page_names_no_peer_whose_losses_are_not_odtcs() -> None:
    far = side("MNN", [*LOSSES[:-1], 0.6], cycles=1e6)
    one = row(side("odtc", cycles=1e6), far, side("PyTorch", cycles=2e6))
    assert [bool(each["differs"]) for each in figures_of([one])] == [False, True, False]
    page = networks(Result([], figures_of([one]), {}))
    (line,) = (text for text in page if text.startswith("| lenet, batch 4 |"))
    assert "2.0 to 2.0 (PyTorch) | 0.50 to 0.50" in line


def test_ratios_are_to_the_better_peer_of_each_bound() -> None:
    """128 missed lines take 512 cycles to move: 64 bytes each, 16 in a cycle."""
    quick, near = side("PyTorch", cycles=200, missed=128), side("MNN", cycles=520)
    assert row(side("odtc", cycles=260), quick, near).ratios() == (260 / 512, 260 / 520)


def test_the_summary_is_by_core_and_names_what_is_lost() -> None:
    rows = [
        row(side("odtc", cycles=100), side("MNN", cycles=400)),
        row(side("odtc", cycles=100), side("MNN", cycles=100), model="digits"),
    ]
    both, apart = summary(rows)
    assert both.startswith("Cortex-A76, everything overlaps: odtc's modelled cycles are 0.50 of")
    assert both.endswith("over 2 models; odtc loses on digits")
    assert "nothing overlaps" in apart
    (one, _) = summary(rows[:1])
    assert one.endswith("over 1 model; odtc loses on none")


def test_lines_that_go_to_memory_are_moved_as_those_that_come_from_it() -> None:
    figures = Figures(missed=(4, 2, 1), written_back=2, pipeline=10)
    second, third, memory = figures.transfers(CORE)
    assert (second, third) == (4 * 64 / 16, 2 * 64 / 8)
    assert memory == pytest.approx(3 * 64 / (10 / 2.4))
    assert figures.overlapped(CORE) == memory
    assert figures.apart(CORE) == pytest.approx(10 + second + third + memory)


def test_the_floor_is_that_of_multiply_adds_of_four_lanes() -> None:
    """Two begin in a cycle of a Cortex-A76, each of eight operations."""
    assert floor(1600, CORE) == 100
    assert floor(1600, CORES["Cortex-A55"]) == 200
