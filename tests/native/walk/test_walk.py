"""A short random walk; and what it finds where a trainer is changed behind its back."""

from pathlib import Path
from random import Random

import pytest

from benchmarks.models.pytorch.table import SMALL
from tests.native.same_bits.options import OPTIONS
from tests.native.same_bits.subject import Subject
from tests.native.walk.moves import MOVES, restart, take
from tests.native.walk.sides import InC
from tests.native.walk.walking import Walk


@pytest.fixture
def walk(tmp_path: Path) -> Walk:
    subject = Subject(SMALL["lenet"], tmp_path)
    return Walk(OPTIONS["accumulation"].compiled(subject), subject, tmp_path / "walk", Random(0))


def test_each_move_is_the_same_on_all_sides(walk: Walk) -> None:
    for move in MOVES:
        move(walk)
    take(walk, 10)


def test_a_weight_that_differs_is_found(walk: Walk) -> None:
    (native,) = (each.native for each in walk.sides if isinstance(each, InC))
    weights = (each for (role, _), each in native.tensors.items() if role == "parameter")
    next(weights).view("uint32").flat[0] ^= 1
    with pytest.raises(AssertionError):
        restart(walk)
