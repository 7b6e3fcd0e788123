"""JSON is read as the type that it should have, or refused."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import pytest

from odtc.core.typed import LARGEST, any_floats, typed


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
        (str, "\ud800"),
        (float, 1e-31),
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
    with pytest.raises(ValueError, match=r"is not |is missing|invalid literal|surrogates"):
        typed(of, data)


def test_the_message_is_short() -> None:
    with pytest.raises(ValueError, match="is not an int") as caught:
        typed(int, "x" * 10**6)
    assert len(str(caught.value)) < 100


def test_what_is_wrong_is_named() -> None:
    with pytest.raises(ValueError, match=r"^leaves: size: 'large' is not an int from 0 to 2"):
        typed(Tree, {"name": "oak", "leaves": [{"size": "large"}]})


@pytest.mark.parametrize("data", ["12", {"1": 2}, [True], ["1"], [None], 1])
def test_other_things_are_no_numbers(data: object) -> None:
    with pytest.raises(ValueError, match="is not a list of numbers"):
        any_floats(data)


def test_numbers_may_be_any() -> None:
    assert any_floats([-1, float("inf")]) == (-1.0, float("inf"))
