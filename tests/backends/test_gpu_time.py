"""Times of kernels on a GPU, by a model of it, and budgets that go by them."""

# pyright: reportInvalidTypeForm=false, reportMissingModuleSource=false

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tvm import tirx
from tvm.script import tirx as T  # noqa: N812

from odtc.backends import ordered
from odtc.backends.cost.call_cost import call_cost
from odtc.backends.cost.gpu_time import gpu_time
from odtc.backends.cost.measured_times import Measured, measured_times
from odtc.backends.gpu.known import GPUS
from odtc.backends.gpu.machine import LARGE, PHONE
from odtc.backends.kernels.common import parsed
from odtc.backends.targets import parse_target
from odtc.core.ir.product_marks import WORKLOAD
from odtc.core.process.progress import silent
from odtc.driver.drafts.source import read_source
from odtc.driver.frontier import frontier_of
from odtc.driver.options.step_options import StepOptions
from odtc.driver.planning import find_frontier
from odtc.driver.splitting import Cuts, Planned
from odtc.passes.checkpoint.call_time import CallTime
from odtc.passes.checkpoint.cuts import Cut
from odtc.passes.checkpoint.work import operations

TARGET = "android-opencl{gpu=adreno-640}"
ROWS, DEPTH, ADDED = 512, 128, 6
GROUPS, ITEMS, TERMS = 8, 32, 16


@parsed.prim_func(private=False, s_tir=True)
def sums(x: T.Buffer((TERMS,), "float32"), y: T.Buffer((GROUPS * ITEMS,), "float32")) -> None:
    """Two launches; in the first, items add up as many terms as the number of their group."""
    with T.launch_thread("blockIdx.x", GROUPS) as group:
        item = T.launch_thread("threadIdx.x", ITEMS)
        for term in range(group):
            y[group * ITEMS + item] = y[group * ITEMS + item] + x[term]
    with T.launch_thread("threadIdx.x", ITEMS) as item:
        y[item] = y[item] * T.float32(2)


@parsed.prim_func(private=False, s_tir=True)
def looped(y: T.Buffer((ITEMS,), "float32")) -> None:
    """A launch that the host makes several times."""
    for _ in range(GROUPS):
        with T.launch_thread("threadIdx.x", ITEMS) as item:
            y[item] = y[item] * T.float32(2)


def test_the_work_of_all_items_counts() -> None:
    """Loops that depend on an item are as long as those of the one in the middle."""
    assert operations(sums) == GROUPS * ITEMS * (GROUPS // 2) + ITEMS


@parsed.prim_func(private=False, s_tir=True)
def chosen(x: T.Buffer((4,), "float32"), y: T.Buffer((2 * ITEMS,), "float32")) -> None:
    """An item adds up a vector's elements, or does something else."""
    with T.launch_thread("blockIdx.x", 2) as group:
        item = T.launch_thread("threadIdx.x", ITEMS)
        if group < 1:
            both: T.let = x[T.Ramp(0, 1, 4)] * T.Broadcast(T.float32(2), 4)
            y[item] = T.Shuffle([both], [0]) + T.Shuffle([both + both], [1])
        else:
            y[ITEMS + item] = x[0] * T.float32(2)


def test_of_a_condition_in_a_launch_one_side_counts_and_a_vector_once() -> None:
    assert operations(chosen) == 2 * ITEMS * (4 + 1)


def test_each_launch_costs_something() -> None:
    for gpu in (PHONE, LARGE):
        assert 2 * gpu.rates.launch < gpu_time(sums, gpu) < 3 * gpu.rates.launch
        assert GROUPS < gpu_time(looped, gpu) / gpu.rates.launch < GROUPS + 1


def busy(groups: int) -> tirx.PrimFunc:
    """As much work in each of so many groups."""

    @parsed.prim_func(private=False, s_tir=True)
    def kernel(y: T.Buffer((GROUPS * ITEMS,), "float32")) -> None:
        with T.launch_thread("blockIdx.x", groups) as group:
            item = T.launch_thread("threadIdx.x", ITEMS)
            for _ in range(100_000):
                y[group % GROUPS * ITEMS + item] = y[item] * T.float32(2)

    return kernel


def test_a_group_alone_leaves_the_other_units_idle() -> None:
    """So it takes as long as one on each unit; and a thousand on each a thousand times that."""
    one, each, many = (gpu_time(busy(n), LARGE) for n in (1, LARGE.units, 1000 * LARGE.units))
    assert one == pytest.approx(each)
    assert many > 100 * each


@parsed.prim_func(private=False, s_tir=True)
def handed_on(x: T.Buffer((1 << 20,), "float32"), y: T.Buffer((1 << 20,), "float32")) -> None:
    """What the first launch writes the second reads."""
    between = T.alloc_buffer((1 << 20,), "float32")
    with T.launch_thread("blockIdx.x", 1 << 15) as group:
        item = T.launch_thread("threadIdx.x", ITEMS)
        between[group * ITEMS + item] = x[group * ITEMS + item]
    with T.launch_thread("blockIdx.x", 1 << 15) as group:
        item = T.launch_thread("threadIdx.x", ITEMS)
        y[group * ITEMS + item] = between[group * ITEMS + item]


def test_bytes_between_launches_are_written_and_read() -> None:
    moved = 4 * (4 << 20)
    expected = 2 * LARGE.rates.launch + moved / (0.85 * LARGE.rates.memory)
    assert gpu_time(handed_on, LARGE) == pytest.approx(expected)


def test_a_call_that_was_measured_counts_at_that_and_scales_the_model() -> None:
    measured = sums.with_attr(WORKLOAD, "matmul(a)")
    times = measured_times({"matmul(a)": Measured(5e-3, 4e-3, 1e-3)})
    cost = call_cost(parse_target(TARGET), times)
    assert cost(measured) == CallTime(5e-3, is_measured=True)
    modelled = gpu_time(sums, GPUS["adreno-640"])
    assert cost(sums).seconds == pytest.approx(5 * modelled)


def test_rates_are_those_of_the_gpu_that_is_named() -> None:
    known = {name: gpu.rates for name, gpu in GPUS.items() if gpu.rates.known}
    assert {"adreno-640", "adreno-660", "mali-g57"} <= {*known}
    assert all(rates != PHONE.rates for rates in known.values())
    assert GPUS["mali-g31"].rates == PHONE.rates


def _model(path: Path) -> Path:
    """A loss that asks for two tensors of one size: a product, and sums of an input."""
    draw = np.random.default_rng(0)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["product"]),
        helper.make_node("Tanh", ["product"], ["bent"]),
        helper.make_node("ReduceSum", ["more", "last"], ["sums"], keepdims=0),
        helper.make_node("Mul", ["bent", "sums"], ["both"]),
        helper.make_node("MatMul", ["both", "v"], ["hidden"]),
        helper.make_node("Tanh", ["hidden"], ["small"]),
        helper.make_node("MatMul", ["small", "wider"], ["wide"]),
        helper.make_node("Tanh", ["wide"], ["squeezed"]),
        helper.make_node("MatMul", ["squeezed", "u"], ["y"]),
    ]
    shapes = {"w": (DEPTH, ROWS), "v": (ROWS, 64), "wider": (64, 8 * ROWS), "u": (8 * ROWS, 4)}
    constants = [
        numpy_helper.from_array(draw.normal(0, 0.05, shape).astype(np.float32), name)
        for name, shape in shapes.items()
    ]
    constants.append(numpy_helper.from_array(np.array([2]), "last"))
    given = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", DEPTH]),
        helper.make_tensor_value_info("more", TensorProto.FLOAT, ["N", ROWS, ADDED]),
    ]
    made = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 4])]
    graph = helper.make_graph(nodes, "two", given, made, constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _model(tmp_path_factory.mktemp("model") / "m.onnx")


def _options() -> StepOptions:
    return StepOptions(batch=ROWS, loss="mse", micro_batches=1)


def _cut(model: Path) -> Cut[Planned]:
    source = read_source(model, parse_target(TARGET), _options(), silent)
    return next(iter(Cuts(source, silent, for_plans=True)))


def _within_budget(cut: Cut[Planned]) -> tuple[set[str], tuple[int, ...]]:
    """Kernels that run again where room for two of the saved tensors is missing; the calls."""
    budget = cut.plans[0].peak - 2 * 4 * ROWS * ROWS
    plan = next(each for each in cut.plans if each.peak <= budget)
    calls = cut.made.ordered.calls.bindings
    again = [each for each, count in Counter(plan.sequence).items() if count > 1]
    return {calls[each].value.args[0].name_hint for each in again}, plan.sequence


def test_a_budget_of_a_gpu_goes_by_its_prices(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU computes more for a byte than a core: a product may be cheaper than many reads."""
    on_gpu = _cut(model)
    again, sequence = _within_budget(on_gpu)
    assert again == {"fused_matmul_tir_tanh", "multiply"}
    cpu = call_cost(parse_target("android-cpu").resolved())
    monkeypatch.setattr(ordered, "call_cost", lambda *_: cpu)
    others, slower = _within_budget(_cut(model))
    assert others == {"sum", "multiply"}
    seconds = on_gpu.problem.seconds
    assert sum(seconds[each] for each in sequence) < sum(seconds[each] for each in slower)


@pytest.mark.parametrize(
    ("target", "said"),
    [
        (TARGET, "Adreno 640"),
        ("android-vulkan", "a phone's GPU, whichever it is"),
        ("android-opencl{gpu=mali-g76}", "a phone's GPU (no rates of mali-g76 are known)"),
        ("host-opencl", "NVIDIA H100"),
        ("host-cpu", ""),
    ],
)
def test_a_frontier_says_for_which_gpu_it_is_modelled(model: Path, target: str, said: str) -> None:
    found = find_frontier(model, parse_target(target), _options(), 4, silent)
    assert found.modelled_for == said
    assert frontier_of({"modelled_for": said, **_bare()}).modelled_for == said


def _bare() -> dict[str, object]:
    return {"points": [], "lower_bound_bytes": 0, "parameter_bytes": 0, "optimizer_bytes": 0}
