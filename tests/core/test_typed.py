"""JSON is read as the type that it should have, or refused."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import pytest

from odtc.core.typed import LARGEST, typed


class Colour(StrEnum):
    RED = "red"


@dataclass(frozen=True)
class Leaf:
    size: int


@dataclass(frozen=True)
class Tree:
    name: str
    leaves: tuple[Leaf, ...]
    height: float | None = None
    by_year: Mapping[int, Colour] | None = None
    alive: bool = True


def test_json_becomes_the_type() -> None:
    data = {
        "name": "oak",
        "leaves": [{"size": 2, "of another version": 1}],
        "height": 3,
        "by_year": {"1990": "red"},
        "alive": False,
    }
    assert typed(Tree, data) == Tree("oak", (Leaf(2),), 3, {1990: Colour.RED}, False)
    assert typed(Tree, {"name": "oak", "leaves": []}) == Tree("oak", ())


@pytest.mark.parametrize(
    ("of", "data"),
    [
        (int, True),
        (int, 1.0),
        (int, -1),
        (int, LARGEST),
        (int, "1"),
        (float, float("nan")),
        (float, float("inf")),
        (float, 10**400),
        (float, -0.5),
        (float, None),
        (bool, 1),
        (str, 1),
        (Colour, "blue"),
        (Colour, []),
        (float | None, "x"),
        (tuple[int, ...], 1),
        (tuple[int, ...], "12"),
        (tuple[int, ...], {}),
        (Mapping[int, int], {"x": 1}),
        (Mapping[str, int], []),
        (Leaf, {}),
        (Leaf, None),
        (Leaf, [1]),
        (Tree, {"name": "oak", "leaves": [{"size": "large"}]}),
    ],
)
def test_anything_else_is_refused(of: Any, data: object) -> None:
    with pytest.raises(ValueError, match=r"is no |is not |without |invalid literal"):
        typed(of, data)


def test_the_message_is_short() -> None:
    with pytest.raises(ValueError, match="is no int") as caught:
        typed(int, "x" * 10**6)
    assert len(str(caught.value)) < 100
