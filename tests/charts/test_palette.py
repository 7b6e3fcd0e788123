"""Marks and letters: nothing is told by a colour alone, and widths are those of a real font."""

from itertools import combinations, pairwise
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from fontTools.ttLib import TTFont

from odtc.charts.chart import STYLE
from odtc.charts.letters import width
from odtc.charts.palette import DARK, DASHES, DISTINCT, LIGHT, line_class, mark_of

# Machado, Oliveira and Fernandes, "A physiologically-based model for simulation of color vision
# deficiency", 2009: no red, no green, no blue; of linear RGB.
BLIND = {
    "protan": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deutan": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.01182, 0.04294, 0.968881),
    ),
    "tritan": (
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.3039),
    ),
}
TO_XYZ = ((0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505))
WHITE = (0.9505, 1.0, 1.089)
# From that difference on in CIELAB, two colours side by side are told apart at a glance.
APART = 10.0


def linear(colour: str) -> np.ndarray:
    part = np.array([int(colour[n : n + 2], 16) for n in (1, 3, 5)]) / 255
    return np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)


def lab(colour: np.ndarray) -> np.ndarray:
    x, y, z = np.cbrt(np.array(TO_XYZ) @ np.clip(colour, 0, 1) / WHITE)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("kind", BLIND)
def test_those_who_miss_a_colour_tell_all_apart(colours: tuple[str, ...], kind: str) -> None:
    seen = {each: lab(np.array(BLIND[kind]) @ linear(each)) for each in colours}
    for one, other in combinations(colours, 2):
        assert np.linalg.norm(seen[one] - seen[other]) > APART, (one, other)


def test_marks_differ_in_colour_or_shape() -> None:
    marks = [mark_of(number) for number in range(DISTINCT)]
    assert len({*marks}) == DISTINCT
    for one, other in pairwise(marks):
        assert one.colour != other.colour
        assert one.shape != other.shape


def test_letters_are_as_wide_as_those_of_the_font() -> None:
    font = TTFont(Path(matplotlib.get_data_path()) / "fonts/ttf/DejaVuSans.ttf")
    names, sizes = font.getBestCmap(), font["hmtx"]
    for code in range(32, 127):
        real = sizes[names[code]][0] / font["head"].unitsPerEm
        assert real <= width(chr(code), 1.0) < real + 0.002, chr(code)


def test_lines_of_a_chart_differ() -> None:
    kinds = [line_class(number) for number in range(len(LIGHT) * DASHES)]
    assert len({*kinds}) == len(kinds)
    assert all(f".dash{number} " in STYLE for number in range(1, DASHES))
    # Neighbours are told apart without their colours, too.
    dashes = [kind.split()[-1] for kind in kinds]
    assert all(one != other for one, other in pairwise(dashes[: len(LIGHT)]))
