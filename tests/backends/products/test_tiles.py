"""Tiles of cores whose loads are narrower than their vectors."""

import pytest

from odtc.backends.caches import caches_of
from odtc.backends.kernels.attention.scores import tile_within
from odtc.backends.kernels.convolution import loops, weight_gradient
from odtc.backends.kernels.convolution.shifted_cut import Shape
from odtc.backends.kernels.product.tile import Machine, Tile, machine_of

# Of a vision transformer and of convolutions: rows and columns of products.
SIZES = [(197, 576), (192, 197), (768, 197), (64, 512), (96, 3136), (16, 400), (6, 784), (3, 7)]
USUAL, NARROW = (machine_of(128, caches=caches_of([core])) for core in ("cortex-a76", "cortex-a55"))

MACHINES = (NARROW, USUAL)


def cycles(tile: Tile, rows: int, columns: int) -> int:
    """Of a step of the sum, where a load of a vector takes two in which nothing is multiplied."""
    step = tile.vectors * (tile.rows + 2)
    return step * -(-rows // tile.rows) * -(-columns // tile.columns)


@pytest.mark.parametrize("size", SIZES)
def test_narrow_loads_are_waited_for_less(size: tuple[int, int]):
    chosen, usual = (machine.tile(*size) for machine in (NARROW, USUAL))
    assert cycles(chosen, *size) <= cycles(usual, *size)
    sums, usual = (machine.tile_of_sums(*size) for machine in (NARROW, USUAL))
    assert cycles(sums, *size) <= cycles(usual, *size)


def test_a_cortex_a55_has_high_tiles():
    """Two vectors wide: one takes more addresses than there are registers."""
    shapes = [(tile.rows, tile.vectors) for tile in map(NARROW.tile, (197, 768), (576, 197))]
    assert shapes == [(12, 2), (12, 2)]
    assert [(tile.rows, tile.vectors) for tile in map(USUAL.tile, (197,), (576,))] == [(6, 4)]


@pytest.mark.parametrize("machine", [USUAL, NARROW])
def test_all_registers_are_used(machine: Machine):
    tile = machine.tile(192, 768)
    assert tile.rows * tile.vectors == machine.accumulators


def test_products_of_attention_have_tiles_of_the_same_core():
    assert tile_within(NARROW, 32, 64).blocked == NARROW.blocked == 2
    assert tile_within(USUAL, 32, 64).blocked == USUAL.blocked == 0


@pytest.mark.parametrize("bits", [256, 512])
def test_x86_is_not_told_of_loads(bits: int):
    assert machine_of(bits).blocked == 0


def test_only_weight_gradients_of_several_taps_have_high_tiles() -> None:
    """Of one tap LLVM reads four terms of each row at once, and has no registers for the sums."""
    shape = Shape(1, 144, 24)
    of_one, usual = (weight_gradient._cut(shape, 1, each, "float32").tile for each in MACHINES)
    assert (of_one.rows, of_one.vectors) == (usual.rows, usual.vectors)
    of_nine = weight_gradient._cut(shape, 9, NARROW, "float32").tile
    assert of_nine.rows > of_one.rows


@pytest.mark.parametrize(
    ("machine", "of_many"), [(NARROW, True), (USUAL, True), (machine_of(256), False)]
)
def test_panels_are_of_the_operand_with_more_channels(machine: Machine, *, of_many: bool) -> None:
    """Of a phone's cores: the channels of the other one lie beside a panel of it."""
    many, few = Shape(1, channels=144, rows=24), Shape(1, channels=24, rows=144)
    assert loops._is_worth_swapping(many, machine) is of_many
    assert loops._is_worth_swapping(few, machine) is not of_many
    assert not loops._is_worth_swapping(Shape(1, channels=144, rows=144), machine)
