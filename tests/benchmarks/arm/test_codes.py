"""What code for one core costs another: the choice of the default for phones stands on it."""

from collections.abc import Mapping

import pytest

from benchmarks.arm.codes.__main__ import _parser, differing, figures_of, table_of
from benchmarks.arm.codes.counting import Code, counted_code
from benchmarks.arm.cores import CORES
from benchmarks.arm.figures import Figures
from benchmarks.pages.result import Result
from benchmarks.pages.rows.arm import codes
from benchmarks.step_time.cases import case_of
from odtc.backends.targets import parse_target
from tests.needs import needs_emulated_arm

LITTLE, BIG = "cortex-a55", "cortex-a76"
A55, A76 = CORES["Cortex-A55"], CORES["Cortex-A76"]


@pytest.fixture(scope="module")
def counted() -> Mapping[str, Code]:
    case = case_of("digits", 8)
    made = (LITTLE, BIG, f"{BIG}+{LITTLE}")
    return {mcpu: counted_code(case, mcpu, (A55, A76), 1) for mcpu in made}


def cycles(code: Code) -> tuple[float, float]:
    return code.figures[A55.name].overlapped(A55), code.figures[A76.name].overlapped(A76)


@pytest.mark.slow
@needs_emulated_arm()
def test_the_default_for_phones_costs_no_core_what_other_code_costs(
    counted: Mapping[str, Code],
) -> None:
    """Code for a small core on a large one, beside code for a large one on a small one."""
    assert parse_target("android-cpu").mcpu == LITTLE
    (little, big), (waiting, own) = cycles(counted[LITTLE]), cycles(counted[BIG])
    assert big < 1.02 * own
    assert waiting > 1.2 * little


@pytest.mark.slow
@needs_emulated_arm()
def test_each_core_runs_its_own_kernels_of_a_library_for_both(counted: Mapping[str, Code]) -> None:
    both = counted[f"{BIG}+{LITTLE}"]
    little, big = both.figures[A55.name], both.figures[A76.name]
    assert little.instructions == pytest.approx(
        counted[LITTLE].figures[A55.name].instructions, rel=0.005
    )
    assert big.instructions > 1.005 * little.instructions


@pytest.mark.slow
@needs_emulated_arm()
def test_losses_are_the_same_within_rounding(counted: Mapping[str, Code]) -> None:
    assert not [*differing([*counted.values()])]


def code(mcpu: str, cycles: float, losses: tuple[float, ...] = (2.0, 1.5)) -> Code:
    figures = {A55.name: Figures(pipeline=cycles * 1e6)}
    return Code("digits", 8, mcpu, 2048, figures, {A55.name: losses})


def test_the_page_compares_with_the_first_code() -> None:
    rows = [*figures_of([code(LITTLE, 2), code(BIG, 3)], [A55])]
    _, _, first, second = codes(Result([], rows, {}))
    assert first == "| digits, batch 8 | cortex-a55 | 2 | 2.0 to 2.0 |"
    assert second == "| digits, batch 8 | cortex-a76 | 2 | 3.0 to 3.0 (1.50, 1.50) |"
    assert table_of([code(LITTLE, 2), code(BIG, 3)], [A55]).row_count == 2


@pytest.mark.parametrize("loss", [1.6, float("nan")])
def test_a_loss_that_is_another_one_is_told(loss: float) -> None:
    (said,) = differing([code(LITTLE, 2), code(BIG, 3, (2.0, loss))])
    assert said.startswith("digits for cortex-a76 on Cortex-A55: losses")


def test_a_core_that_is_named_twice_is_one() -> None:
    """The counter takes four; more than these are no core's name."""
    options = _parser().parse_args(["--cores", ",".join([*CORES, A55.name.lower()])])
    assert [core.name for core in options.cores] == [*CORES]
