"""Tables of tiles are what the command counts, and kernels are chosen by them."""

from pathlib import Path

import pytest

from benchmarks.arm.cores import CORES
from benchmarks.arm.fit.__main__ import products_table, summary
from benchmarks.arm.fit.decisions import counted_products, tasks_for
from benchmarks.arm.fit.table import rewritten
from benchmarks.arm.fit.tiles import cycles_of_tiles, shapes_of
from benchmarks.step_time.cases import case_of
from odtc.backends.caches import caches_of
from odtc.backends.counted_tiles import OF_SMALL_CORES, CountedTiles
from odtc.backends.kernels.product.tile import machine_of
from odtc.backends.targets import parse_target
from tests.needs import needs_emulated_arm

TARGET = "linux-arm64-cpu{mcpu=cortex-a55}"
SOURCE = """
OF_SMALL_CORES = CountedTiles(
    {
        (1, 2): 3.0,
    }
)
OF_LARGE_CORES = CountedTiles(
    {
        (4, 5): 6.0,
    }
)
"""


def test_one_table_is_replaced_in_order() -> None:
    found = rewritten(SOURCE, "OF_SMALL_CORES", {(2, 2): 7.125, (9, 1): 8.0})
    small, large = dict[str, CountedTiles](), SOURCE.partition("OF_LARGE")[2]
    exec(found, {"CountedTiles": CountedTiles}, small)
    assert [*small["OF_SMALL_CORES"].cycles.items()] == [((9, 1), 8.0), ((2, 2), 7.12)]
    assert found.endswith(large)
    with pytest.raises(ValueError, match="the source has 0 tables OF_NO_CORES"):
        rewritten(SOURCE, "OF_NO_CORES", {})


@pytest.mark.slow
@needs_emulated_arm()
def test_the_table_is_what_is_counted(tmp_path: Path) -> None:
    shapes = shapes_of(TARGET)
    assert {*shapes} == OF_SMALL_CORES.cycles.keys()
    some = [(12, 2), (8, 3)]
    found = cycles_of_tiles(TARGET, some, CORES["Cortex-A55"], tmp_path)
    assert found == pytest.approx({each: OF_SMALL_CORES.cycles[each] for each in some}, rel=0.02)


def test_tiles_of_small_cores_are_chosen_by_the_counts() -> None:
    machine = machine_of(128, caches=caches_of(["cortex-a55"]))
    tile = machine.tile(120, 192)
    steps = {shape: -(-120 // shape[0]) * -(-48 // shape[1]) for shape in OF_SMALL_CORES.cycles}
    cycles = {shape: steps[shape] * each for shape, each in OF_SMALL_CORES.cycles.items()}
    assert cycles[tile.rows, tile.vectors] == min(cycles.values())
    assert machine.tile_of(14, 2).step > 1.5 * machine.tile_of(14, 2, "float16").step
    # No other machine goes by them.
    others = [machine_of(128), machine_of(128, caches=caches_of(["cortex-a76"]))]
    assert not any(each.counted.cycles for each in others)


@pytest.mark.slow
@needs_emulated_arm()
def test_products_are_counted_with_other_choices() -> None:
    cores = (CORES["Cortex-A55"], CORES["Cortex-A76"])
    tasks = tasks_for(case_of("digits", 8), parse_target(TARGET).resolved(), 1)
    (product,) = products = counted_products(tasks, TARGET, cores, 1)
    assert all(figures.wide > 0 for figures in product.usual)
    assert {each.decision for each in product.others} >= {"tile"}
    assert not {each.decision for each in product.others} & {"tasks", "shares"}
    assert len({(each.decision, each.value) for each in product.others}) == len(product.others)
    assert products_table(products).row_count == len(cores)
    assert [line.split(":")[0] for line in summary("digits", products)] == [
        "digits, Cortex-A55",
        "digits, Cortex-A76",
    ]
