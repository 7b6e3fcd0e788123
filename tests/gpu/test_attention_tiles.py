"""Tiles of attention on GPUs: what they take, where scores lie, and that nothing is outside."""

from dataclasses import replace

import numpy as np
import pytest
import tvm
from tvm import tirx
from tvm.sym import Analyzer

from odtc.backends.gpu.attention.backward import attention_gradient_on_gpu
from odtc.backends.gpu.attention.forward import attention_on_gpu
from odtc.backends.gpu.attention.memory import AT_ONCE, score_place
from odtc.backends.gpu.attention.rules import tile_of
from odtc.backends.gpu.attention.tile import AttentionTile
from odtc.backends.gpu.known import GPUS, OF_HOSTS
from odtc.backends.gpu.machine import LARGE, PHONE, Gpu
from odtc.backends.gpu.tile_speeds import ATTENTION, ATTENTION_OF_VULKAN, AttentionSpeed
from odtc.backends.kernels.attention.layout import Heads
from tests.gpu.accesses import Accesses, is_shared, is_tensor


def _tile(of: AttentionSpeed) -> AttentionTile:
    return AttentionTile(of.rows, of.columns, of.down, of.terms)


TILES = [_tile(each) for each in ATTENTION]
TILES_OF_VULKAN = [_tile(each) for each in ATTENTION_OF_VULKAN]
# Banks of shared memory, each a number wide, and items that write vectors in one turn.
BANKS, IN_TURN = 32, 8


def heads(width: int, queries: int = 100, keys: int = 70) -> Heads:
    inner = (True, True, True, True)
    return Heads(2, 3, queries, keys, width, width, inner, (), 0.5, replaces=False, safe=False)


def place_of(tile: AttentionTile, column: int, row: int) -> int:
    lanes = min(tile.rows, AT_ONCE)
    at = score_place(tile, tirx.const(column, "int32"), tirx.const(row, "int32"), lanes)
    return int(Analyzer().simplify(at))


@pytest.mark.parametrize("tile", sorted({*TILES, *TILES_OF_VULKAN}, key=str), ids=str)
def test_scores_of_a_tile_have_places_of_their_own(tile: AttentionTile) -> None:
    lanes = min(tile.rows, AT_ONCE)
    rows, columns = range(0, tile.height, lanes), range(tile.width)
    found = np.array([[place_of(tile, column, row) for row in rows] for column in columns])
    each = (found[..., None] + np.arange(lanes)).ravel()
    assert sorted(each) == list(range(tile.width * tile.height))
    assert (found % lanes == 0).all()


def test_items_side_by_side_write_scores_to_banks_of_their_own() -> None:
    tile = TILES[0]
    places = np.array([place_of(tile, x * tile.columns, 0) for x in range(IN_TURN)])
    assert len({*((places[:, None] + np.arange(AT_ONCE)) % BANKS).ravel()}) == BANKS


@pytest.mark.parametrize("name", sorted(GPUS))
def test_a_tile_fits_its_gpu(name: str) -> None:
    gpu = GPUS[name]
    for width in (8, 64, 80, 128, 256):
        tile = tile_of(heads(width), gpu)
        if tile:
            assert tile.items <= gpu.most_items
            assert tile.local_bytes(heads(width)) <= gpu.local_bytes


@pytest.mark.parametrize(
    ("gpu", "width", "found"),
    [
        (LARGE, 64, TILES[0]),
        (LARGE, 128, TILES[1]),
        (OF_HOSTS["host-vulkan"], 128, TILES_OF_VULKAN[1]),
        (PHONE, 64, TILES[3]),
        (GPUS["mali-g78"], 64, None),
        (PHONE, 512, None),
    ],
)
def test_the_fastest_tile_that_fits_is_taken(
    gpu: Gpu, width: int, found: AttentionTile | None
) -> None:
    assert tile_of(heads(width), gpu) == found


@pytest.mark.parametrize(("steps", "number"), [(128, 0), (256, 0), (197, 1), (65, 1), (500, 0)])
def test_a_tile_is_smaller_where_a_larger_one_is_mostly_past_the_end(
    steps: int, number: int
) -> None:
    found = tile_of(heads(64, steps, steps), OF_HOSTS["host-vulkan"])
    assert found == TILES_OF_VULKAN[number]


@pytest.mark.parametrize("tile", sorted({*TILES, *TILES_OF_VULKAN}, key=str), ids=str)
@pytest.mark.parametrize("is_masked", [True, False])
def test_attention_reaches_nothing_outside(tile: AttentionTile, is_masked: bool) -> None:
    """Of tensors, and of what a group shares; queries and keys fill no tiles."""
    mask = (1, 1, 100, 70) if is_masked else ()
    cut = replace(heads(20), batch=1, heads=2, mask=mask)
    with tvm.target.Target("vulkan"):
        kernels = [
            attention_on_gpu(cut, tile),
            attention_gradient_on_gpu(cut, ["float32"] * 4, tile),
        ]
    for kernel in kernels:
        assert Accesses(kernel, is_tensor).outside() == []
        assert Accesses(kernel, is_shared).outside() == []
