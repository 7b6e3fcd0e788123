"""The order of a convolution's terms on a GPU, and what its tiles ask at their edges."""

import itertools

import pytest
from tvm import tirx
from tvm.sym import Analyzer

from odtc.backends.gpu.machine import LARGE
from odtc.backends.gpu.multiply import ACROSS
from odtc.backends.gpu.product_slices import ProductTerm
from odtc.backends.gpu.tiling import ProductExtent, tiling_of
from odtc.backends.gpu.windows import of_terms
from odtc.backends.spirv.assemble import Shader
from tests.gpu.one_product import noise, product
from tests.gpu.spirv.spirv_tools import questions


@pytest.mark.parametrize("channels", [32, 24, 5])
def test_each_channel_and_tap_is_one_term(channels: int) -> None:
    """In slices of 16; where channels fill them, all taps of a slice's channels are neighbours."""
    terms, taps, simplified = 16, [3, 2], Analyzer().simplify
    of_term = of_terms(channels, taps, 8, LARGE)
    found = []
    for flat in range(channels * 6):
        number, k = (tirx.const(n, "int32") for n in divmod(flat, terms))
        c, tap = of_term(ProductTerm(tirx.const(flat, "int32"), number, k, terms))
        found.append((int(simplified(c)), *(int(simplified(each)) for each in tap)))
    assert sorted(found) == list(itertools.product(range(channels), range(3), range(2)))
    if channels % terms == 0:
        for first in range(0, len(found), terms):
            assert len({each[1:] for each in found[first : first + terms]}) == 1
        whole = terms * 6
        assert {c for c, *_ in found[:whole]} == set(range(terms))


def test_edges_of_tiles_ask_nothing_but_what_to_store(made: list[Shader]) -> None:
    """Through Vulkan, of rows and columns that fill no tile: rows past the last one are read."""
    a, b = noise(1, 1030, 64), noise(1, 64, 2060)
    product("vulkan", "matmul", (0, 0), [a, b], (1, 1030, 2060), LARGE)
    assert [questions(shader) for shader in made] == [2]


@pytest.mark.parametrize(
    ("extent", "at_once"),
    [
        (ProductExtent(1, 768, 4096, 768), 3),
        (ProductExtent(1, 128, 1152, 25088), 3),
        (ProductExtent(1, 64, 100352, 576), 3),
    ],
)
def test_no_group_is_alone_on_its_unit(extent: ProductExtent, at_once: int) -> None:
    """A unit of an H100 has registers for three groups of 128 items: a fourth would wait, alone."""
    tiling = tiling_of(extent, LARGE)
    groups = tiling.tiles(extent) * tiling.splits
    assert tiling.down * ACROSS == 128
    assert -(-groups // LARGE.units) % at_once == 0
