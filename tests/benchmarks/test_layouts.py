"""The benchmark of layouts, on a small network."""

from pathlib import Path

import onnx
import pytest

from benchmarks.layouts import (
    ALL_LAST,
    WAYS,
    LayoutWay,
    Network,
    draw,
    is_move,
    mean_of,
    measured,
    table_of,
)
from benchmarks.models.pytorch.export import export
from benchmarks.models.pytorch.spec import batches, make
from benchmarks.models.pytorch.table import SMALL
from benchmarks.step_time.cases import StepCase
from odtc.core.ir.layouts import LAST
from odtc.driver.layouts import CHEAPEST, ONNX


@pytest.mark.slow
def test_the_ways_agree_and_take_turns(tmp_path: Path) -> None:
    entry = SMALL["mobilenet_v2"]
    module = make(entry)
    x, y = next(batches(entry))
    export(module, x, tmp_path / "model.onnx")
    case = StepCase("small", onnx.load(tmp_path / "model.onnx"), x, y, entry.lr, entry.loss)
    network = measured(case, 2, tmp_path)
    assert [way.layout for way in network.ways] == list(WAYS)
    assert all(not way.skipped and len(way.seconds) == 2 for way in network.ways)
    last = network.timed[ALL_LAST]
    assert last.operators[LAST] == sum(last.operators.values()) > 0
    assert last.copies > 0
    assert any("relayout" in kernel for kernel in last.by_kernel)
    assert 0 < last.moving < 1
    assert table_of([network]).row_count == len(WAYS)
    draw([network], "layouts", tmp_path / "layouts.svg")
    assert (tmp_path / "layouts.svg").read_text().startswith("<?xml")


def test_the_cheapest_layouts_are_compared_with_the_better_of_the_others_turn_by_turn() -> None:
    seconds = {ONNX: [2.0, 4.0], ALL_LAST: [3.0, 9.0], CHEAPEST: [1.0, 2.0]}
    network = Network(
        "one", (0, 0), [LayoutWay(name, {}, 0, 0, [], s) for name, s in seconds.items()]
    )
    assert network.better.median == pytest.approx(2)
    assert network.against(ALL_LAST).median == pytest.approx(3.75)
    assert mean_of([network, network]) == pytest.approx(2)


@pytest.mark.parametrize(
    ("kernel", "moves"),
    [
        ("relayout12", True),
        ("concatenate", True),
        ("fused_reshape4_transpose1", True),
        ("strided_slice3", True),
        ("fused_strided_slice7_strided_slice7_greater8_where", False),
        ("fused_reshape2_add", False),
        ("weight_gradient", False),
    ],
)
def test_kernels_that_only_move_elements_are_told_by_their_names(kernel: str, moves: bool) -> None:
    assert is_move(kernel) == moves
