"""Simulated caches miss what a core's would: ways, lines, pages, and what is written back."""

from collections.abc import Sequence

import pytest

from benchmarks.arm.cores import CORES, Core
from benchmarks.arm.emulator import Counted
from benchmarks.arm.figures import Figures, profile_of
from benchmarks.arm.places import Places
from tests.benchmarks.arm.programs import counted_program

CORE, SMALLER = CORES["Cortex-A76"], CORES["Cortex-A55"]
# Of the first level, 64 KiB in four ways: lines that are a way apart share a set.
WAY, PAGE, LINE = 1 << 14, 1 << 12, 64
MEMORY = 1 << 26
SOURCE = f"""
static char m[{MEMORY}] __attribute__((aligned(65536)));
static void load(size_t from, size_t step, int times) {{
  for (int i = 0; i < times; ++i) (void)*(volatile uint64_t *)(m + from + i * step);
}}
static void load_again(size_t from, size_t step, int times, int rounds) {{
  while (rounds--) load(from, step, times);
}}
static void store(size_t from, size_t step, int times) {{
  for (int i = 0; i < times; ++i) *(volatile char *)(m + from + i * step) = 1;
}}
int main(void) {{
  COUNT(0, load_again(0, {WAY}, 4, 100));
  COUNT(1, load_again({LINE}, {WAY}, 5, 100));
  COUNT(2, load({1 << 20} + 60, {2 * LINE}, 1000));
  COUNT(3, load({1 << 22}, {PAGE + LINE}, 1000));
  COUNT(4, load({1 << 22}, {PAGE + LINE}, 1000));
  COUNT(5, load({1 << 23}, {PAGE + LINE}, 3000));
  COUNT(6, load({1 << 23}, {PAGE + LINE}, 3000));
  COUNT(7, store({1 << 25}, {LINE}, {(1 << 24) // LINE}));
  COUNT(8, store({1 << 25}, {LINE}, 100));
  return copy_map();
}}
"""


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Counted]:
    """Of two cores, whose caches are simulated side by side."""
    cores = [SMALLER, CORE]
    found = counted_program(SOURCE, ["-O1"], cores, tmp_path_factory.mktemp("caches"))
    return {core.name: each for core, each in zip(cores, found, strict=True)}


def _totals(both: dict[str, Counted], core: Core) -> Sequence[Figures]:
    return [profile_of(step, Places([]), core).total for step in both[core.name].steps]


@pytest.fixture(scope="module")
def steps(both: dict[str, Counted]) -> Sequence[Figures]:
    return _totals(both, CORE)


def test_a_set_holds_as_many_lines_as_it_has_ways(steps: Sequence[Figures]) -> None:
    """Of five lines in turn the oldest always goes, and is what comes next."""
    assert steps[0].missed[0] == pytest.approx(4, abs=10)
    assert steps[1].missed[0] == pytest.approx(500, abs=10)
    assert steps[1].missed[1] == pytest.approx(5, abs=10)


def test_cores_side_by_side_have_caches_of_their_own(
    both: dict[str, Counted], steps: Sequence[Figures]
) -> None:
    """Of 16 MiB that were written to, a third level of 2 MiB keeps half of what one of 4 keeps."""
    smaller = _totals(both, SMALLER)
    assert [each.instructions for each in smaller] == [each.instructions for each in steps]
    lines, held = (1 << 24) // LINE, SMALLER.caches[2].kib * 1024 // LINE
    assert smaller[7].written_back == pytest.approx(lines - held, rel=0.02)


def test_a_load_that_reaches_into_the_next_line_takes_both(steps: Sequence[Figures]) -> None:
    assert steps[2].missed[0] == pytest.approx(2000, abs=10)
    assert steps[2].loaded == pytest.approx(8000, abs=200)


def test_translations_of_1280_pages_are_held(steps: Sequence[Figures]) -> None:
    assert steps[3].walks == pytest.approx(1000, abs=10)
    assert steps[4].walks == pytest.approx(0, abs=10)
    assert steps[5].walks == pytest.approx(3000, abs=10)
    assert steps[6].walks == pytest.approx(3000, abs=10)


def test_lines_that_were_written_to_go_to_memory_once_they_have_to_leave(
    steps: Sequence[Figures],
) -> None:
    """16 MiB through 4 of the last level; lines that were only read are written nowhere."""
    lines, held = (1 << 24) // LINE, CORE.caches[2].kib * 1024 // LINE
    assert steps[7].written_back == pytest.approx(lines - held, rel=0.02)
    assert all(step.written_back < 10 for step in steps[:7])
    # Each line that is fetched now pushes one out.
    assert steps[8].written_back == pytest.approx(100, abs=10)
