"""Charts of lines of text."""

import math

from odtc.core.text_chart import text_chart


def test_points_are_where_their_numbers_are():
    line = [(float(n), float(n)) for n in range(4)]
    assert text_chart({"*": line}, width=4, height=4) == ["3 |   *", "  |  *", "  | *", "0 |*"]


def test_several_points_of_a_column_are_their_mean():
    many = [(0.0, 2.0), (0.0, 4.0), (0.1, 6.0), (2.0, 0.0), (2.0, 2.0)]
    assert text_chart({"*": many}, width=2, height=3) == ["4 |*", "  |", "1 | *"]


def test_later_letters_cover_and_what_is_not_finite_is_left_out():
    first = [(0.0, 1.0), (1.0, 2.0), (2.0, math.nan), (3.0, math.inf)]
    lines = text_chart({"*": first, "o": [(1.0, 2.0)]}, width=2, height=2)
    assert lines == ["2 | o", "1 |*"]
    assert text_chart({"*": [(0.0, math.nan)]}) == []


def test_one_point_and_one_value_are_charts():
    assert text_chart({"*": [(5.0, 7.0)]}, width=3, height=2) == ["7 |*", "7 |"]
    flat = text_chart({"*": [(0.0, 1.0), (1.0, 1.0)]}, width=2, height=2)
    assert flat[0] == "1 |**"
