"""The plugin counts what a loop does that can be counted by hand, the same at each run."""

import subprocess
from pathlib import Path

import pytest

from benchmarks.arm.blocks import Block
from benchmarks.arm.cores import CORES
from benchmarks.arm.emulator import Counted
from benchmarks.arm.figures import Figures, profile_of
from benchmarks.arm.instructions import Kind
from benchmarks.arm.places import Places
from tests.benchmarks.arm.programs import counted_program

CORE = CORES["Cortex-A76"]
ELEMENTS = 1 << 18
# y += 3 x over more than the caches hold; a function of its own, so that it has a name.
SOURCE = """
enum { N = %d };
static float x[N], y[N];
__attribute__((noinline)) void add_thrice(void) { for (int i = 0; i < N; ++i) y[i] += 3 * x[i]; }
int main(void) {
  for (int i = 0; i < N; ++i) x[i] = y[i] = 1;
  for (int n = 0; n < 2; ++n) COUNT(n, add_thrice());
  return y[N - 1] != 7 || copy_map();
}
"""


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> Counted:
    flags = ["-O3", "-mcpu=cortex-a76", "-ffast-math"]
    folder = tmp_path_factory.mktemp("count")
    (found,) = counted_program(SOURCE % ELEMENTS, flags, [CORE], folder)
    return found


def total(blocks: list[Block]) -> Figures:
    return profile_of(blocks, Places([]), CORE).total


def test_loads_stores_and_lines_are_those_of_the_loop(counted: Counted) -> None:
    first = total(list(counted.steps[0]))
    # Some loads and stores are those of calls.
    assert first.loaded == pytest.approx(8 * ELEMENTS, rel=1e-3)
    assert first.stored == pytest.approx(4 * ELEMENTS, rel=1e-3)
    lines = 2 * ELEMENTS * 4 / 64
    assert first.missed[0] == pytest.approx(lines, rel=1e-2)
    # The arrays, 2 MiB, stay in the third level, which has 4, but not in the second.
    again = total(list(counted.steps[1]))
    assert again.missed[1] == pytest.approx(lines, rel=1e-2)
    assert first.missed[2] == pytest.approx(lines, rel=1e-2)
    assert again.missed[2] < lines / 100


def test_arithmetic_is_that_of_the_loop(counted: Counted) -> None:
    first = total(list(counted.steps[0]))
    assert first.flops == pytest.approx(2 * ELEMENTS, rel=1e-3)
    assert first.wide == pytest.approx(ELEMENTS / 4, rel=1e-3)
    assert first.kinds[Kind.MULTIPLY_ADD] == pytest.approx(ELEMENTS / 4, rel=1e-3)


def test_runs_are_alike(counted: Counted) -> None:
    one, other = (total(list(step)) for step in counted.steps)
    assert one.instructions == pytest.approx(other.instructions, rel=1e-4)
    assert one.missed[:2] == pytest.approx(other.missed[:2], rel=1e-2)


def test_code_is_found_by_its_name(counted: Counted) -> None:
    profile = profile_of(counted.steps[0], Places(counted.mappings), CORE)
    place = next(iter(profile.places))
    assert (place.library, place.function) == ("loop", "add_thrice")


def test_bounds_are_in_order(counted: Counted) -> None:
    figures = total(list(counted.steps[0]))
    assert max(figures.transfers(CORE)) <= figures.overlapped(CORE) <= figures.apart(CORE)
    # A load of 16 bytes for each half of a multiply-add, two of which begin in a cycle.
    assert figures.pipeline >= 2 * ELEMENTS / 4 / 2


def test_what_is_no_option_is_said(tmp_path: Path) -> None:
    from benchmarks.arm.emulator import EMULATOR, plugin

    for said, options in {
        "what is l9=1x1?": "l9=1x1",
        "what is l2=1x1?": "l2=1x1",
        "what is l1=3x1?": "l1=3x1",
        "a core has no l3": "l1=1x1,l2=1x1",
    }.items():
        words = [EMULATOR, "-plugin", f"{plugin(tmp_path)},{options}", "/bin/true"]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert done.returncode
        assert said in done.stderr
