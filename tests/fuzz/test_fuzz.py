"""Damaged models are refused or trained: a sample of all mutations; `make fuzz` makes 2,000."""

from pathlib import Path

import pytest

from tests.fuzz.__main__ import cases, run
from tests.fuzz.corpus import CORPUS
from tests.fuzz.mutant import make_mutant
from tests.fuzz.mutations import MUTATIONS

SAMPLE = 40


def check(count: int, folder: Path) -> set[str]:
    """Runs the first mutants, of which none may be at fault; returns their outcomes."""
    outcomes = list(run(cases(count, str(folder))))
    faults = [f"{case}: {found.detail}" for case, found, _ in outcomes if found.kind == "fault"]
    assert not faults, "\n\n".join(faults)
    assert len(outcomes) == count
    return {found.kind for _, found, _ in outcomes}


def test_a_sample_of_damaged_models(tmp_path: Path) -> None:
    assert check(SAMPLE, tmp_path) >= {"trained", "refused"}


@pytest.mark.slow
def test_damaged_models(tmp_path: Path) -> None:
    assert check(2000, tmp_path) >= {"trained", "diverged", "refused"}


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_a_mutant_is_the_same_each_time(mutation: str, tmp_path: Path) -> None:
    for family in list(CORPUS)[:2]:
        first, second = (make_mutant(mutation, family, 3, tmp_path) for _ in range(2))
        assert first.serialized() == second.serialized()
        assert (first.files, first.links) == (second.files, second.links)
