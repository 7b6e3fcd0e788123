"""Edited graphs are refused or trained: a sample; `python -m tests.fuzz.graphs` makes 10,000."""

from collections.abc import Sequence

import pytest

from tests.fuzz.graphs.__main__ import cases, run
from tests.fuzz.graphs.kinds import KINDS
from tests.fuzz.graphs.mutant import EDITS, Case, make_mutant

TRAINED, CHECKED = 5, 45


def _ends(chosen: Sequence[Case]) -> set[str]:
    """How mutants end, none of them in a fault."""
    found = list(run(chosen, workers=1))
    faults = [
        f"{case}: {result.outcome.detail}"
        for case, result, _ in found
        if result.outcome.kind == "fault"
    ]
    assert not faults, "\n\n".join(faults)
    assert len(found) == len(chosen)
    return {result.outcome.kind for _, result, _ in found}


def test_a_sample_of_edited_graphs() -> None:
    """Some are trained, and more are checked."""
    chosen = [*cases(TRAINED, 0, ()), *cases(CHECKED, 1, (), minutes=0)]
    assert _ends(chosen) >= {"trained", "passed", "refused"}


@pytest.mark.slow
def test_edited_graphs() -> None:
    assert _ends(cases(1000, 2, ())) >= {"trained", "diverged", "refused"}


def test_most_are_valid_and_each_is_another() -> None:
    mutants = [make_mutant(case) for case in cases(4 * len(KINDS), 3, ())]
    assert sum(each.is_valid for each in mutants) >= 0.7 * len(mutants)
    assert len({each.digest for each in mutants}) >= 0.95 * len(mutants)
    assert len({edit for each in mutants for edit in each.edits}) >= 0.7 * len(set(EDITS))


@pytest.mark.parametrize("kind", KINDS)
def test_a_mutant_is_the_same_each_time(kind: str) -> None:
    first, second = (make_mutant(Case(kind, 3)) for _ in range(2))
    assert first == second
