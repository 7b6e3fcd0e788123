"""A step within a budget of bytes: the same bits as without one, and bytes as promised."""

import json
import re
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import odtc
from benchmarks.models.digits import bn_model
from benchmarks.models.pytorch.export import export
from benchmarks.models.pytorch.spec import batches, make
from benchmarks.models.pytorch.table import SMALL
from odtc.artifact import Artifact
from odtc.backends.lowering import to_kernels
from odtc.backends.ordered import in_order
from odtc.backends.targets import parse_target
from odtc.cli.main import main
from odtc.core.errors import BudgetError, UsageError
from odtc.core.options.byte_sizes import parse_bytes
from odtc.core.process.progress import silent
from odtc.driver.frontier import Point
from odtc.driver.options.step_options import StepOptions
from odtc.driver.preparation import prepare
from odtc.frontend.training import TRAIN_STEP
from odtc.passes.checkpoint.frontier import frontier
from odtc.passes.ir.calls import Calls, workspaces_in
from odtc.passes.schedule.insert_checkpoints import InsertCheckpoints
from tests.fast import fast_if

STEPS = 3
# Residuals and batch statistics, a recurrent layer, attention, branches that are joined.
NAMES = ("resnet18", "char_cnn_lstm", "bert_base", "googlenet")
Compile = Callable[..., Artifact]


@pytest.fixture(scope="module", params=fast_if(lambda name: name == "char_cnn_lstm", NAMES))
def compiled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    """Compiles a small model with a budget, and yields the batches that it is trained with."""
    model = SMALL[request.param]
    path = tmp_path_factory.mktemp("budget") / "model.onnx"
    data = [batch for batch, _ in zip(batches(model), range(STEPS), strict=False)]
    export(make(model), data[0][0], path)

    def compile_(**options) -> Artifact:
        return odtc.compile(path, batch=model.batch, loss=model.loss, micro_batches=1, **options)

    return compile_, data, model.lr, compile_(), floor_of(compile_)


def trained(artifact: Artifact, data, lr: float) -> tuple[list[float], dict[str, np.ndarray]]:
    trainer = artifact.trainer()
    return [trainer.step(x, y, lr) for x, y in data], trainer.parameters()


def floor_of(compile_: Compile, **options) -> int:
    """The least budget, as the refusal of a lower one names it."""
    with pytest.raises(BudgetError, match="the step needs at least") as caught:
        compile_(memory_budget=1, **options)
    (found,) = re.findall(r"at least ([\d,]+) bytes", str(caught.value))
    return int(found.replace(",", ""))


def test_the_same_bits_in_fewer_bytes(compiled) -> None:
    compile_, data, lr, whole, floor = compiled
    assert floor < whole.memory.arena_bytes
    losses, parameters = trained(whole, data, lr)
    for budget in ((floor + whole.memory.arena_bytes) // 2, floor):
        artifact = compile_(memory_budget=budget)
        plan = artifact.memory.plan
        assert plan.peak_bytes <= plan.arena_bytes <= budget
        more = Counter(plan.calls) - Counter(whole.memory.plan.calls)
        assert more.total() == len(plan.calls) - len(whole.memory.plan.calls) > 0
        assert f"{more.total()} of {len(plan.calls)} calls run again" in artifact.manifest.notes[-1]
        found, values = trained(artifact, data, lr)
        assert found == losses
        for name, value in parameters.items():
            np.testing.assert_array_equal(values[name], value, err_msg=name)


def tower(layers: int = 4, size: int = 12) -> onnx.ModelProto:
    """Layers of a convolution, batch statistics, a rectifier and dropout."""
    rng = np.random.default_rng(0)
    nodes, weights, data = [], {"ratio": np.float32(0.3)}, "x"
    for layer in range(layers):
        own = {name: f"{name}{layer}" for name in ("w", "g", "b", "m", "v")}
        weights[own["w"]] = rng.standard_normal((8, 8, 3, 3)) / 8
        weights |= {own[name]: np.ones(8) for name in ("g", "v")}
        weights |= {own[name]: np.zeros(8) for name in ("b", "m")}
        nodes += [
            helper.make_node("Conv", [data, own["w"]], [f"c{layer}"], pads=[1] * 4),
            helper.make_node(
                "BatchNormalization",
                [f"c{layer}", *(own[name] for name in "gbmv")],
                [f"n{layer}"],
            ),
            helper.make_node("Relu", [f"n{layer}"], [f"r{layer}"]),
            helper.make_node("Dropout", [f"r{layer}", "ratio"], [f"d{layer}"], f"drop{layer}"),
        ]
        data = f"d{layer}"
    nodes += [
        helper.make_node("GlobalAveragePool", [data], ["p"]),
        helper.make_node("Flatten", ["p"], ["y"]),
    ]
    tensors = [numpy_helper.from_array(np.float32(v), k) for k, v in weights.items()]
    graph = helper.make_graph(
        nodes,
        "tower",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 8, size, size])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 8])],
        tensors,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_a_budget_that_holds_the_step_changes_nothing(tmp_path: Path) -> None:
    onnx.save(tower(), tmp_path / "tower.onnx")
    whole = odtc.compile(tmp_path / "tower.onnx").memory.plan
    same = odtc.compile(tmp_path / "tower.onnx", memory_budget=whole.arena_bytes)
    assert same.memory.plan.calls == whole.calls
    assert "no call runs again" in same.manifest.notes[-1]


def test_what_runs_again_is_seen_in_the_function(tmp_path: Path) -> None:
    onnx.save(tower(), tmp_path / "tower.onnx")
    step = prepare(
        tmp_path / "tower.onnx", parse_target("host-cpu{threads=1}"), StepOptions(), silent
    )
    scheduled = to_kernels(*step.kernels, has_half=step.source.has_half)
    ordered = in_order(scheduled, step.source.target, TRAIN_STEP)
    problem = ordered.problem
    least = frontier(problem)[-1]
    with step.source.target.to_tvm():
        repeated = InsertCheckpoints(TRAIN_STEP, 1, problem, [least]).run(ordered.module)
    calls = Calls(repeated[TRAIN_STEP], workspaces_in(repeated, 1)).bindings
    again = [each for each in calls if each.var.name.endswith("_again")]
    assert len(again) == len(least.sequence) - len(problem.seconds) > 0
    first = {each.var.name for each in calls} - {each.var.name for each in again}
    assert {each.var.name.removesuffix("_again") for each in again} <= first


OPTIONS = {
    "sgd": {},
    "clipped": {"optimizer": odtc.Update(odtc.AdamW(), clip_norm=0.1)},
    "accumulated": {"optimizer": odtc.Update(odtc.SGD(momentum=0.9), accumulate=2, ema=0.9)},
    "scaled": {"optimizer": odtc.Update(odtc.SGD(), loss_scale="dynamic")},
    "mixed": {"precision": "mixed"},
}


@pytest.mark.parametrize("kind", fast_if(lambda kind: kind == "accumulated", OPTIONS))
def test_masks_and_updates_stay_the_same(kind: str, tmp_path: Path) -> None:
    options = OPTIONS[kind]
    onnx.save(tower(), tmp_path / "tower.onnx")

    def compile_(**more) -> Artifact:
        return odtc.compile(tmp_path / "tower.onnx", seed=3, **options, **more)

    rng = np.random.default_rng(1)
    data = [
        (rng.standard_normal((4, 8, 12, 12), np.float32), rng.integers(0, 8, 4)) for _ in range(4)
    ]
    whole, least = compile_(), compile_(memory_budget=floor_of(compile_))
    assert least.memory.arena_bytes < whole.memory.arena_bytes
    losses, parameters = trained(whole, data, 0.1)
    found, values = trained(least, data, 0.1)
    assert found == losses
    for name, value in parameters.items():
        np.testing.assert_array_equal(values[name], value, err_msg=name)


def test_one_byte_below_the_floor_is_refused(compiled) -> None:
    compile_, *_, floor = compiled
    with pytest.raises(BudgetError, match=f"at least {floor:,} bytes") as caught:
        compile_(memory_budget=floor - 1)
    assert caught.value.where
    assert caught.value.hint


@pytest.mark.slow
def test_more_bytes_are_never_slower(tmp_path: Path) -> None:
    onnx.save(bn_model(), tmp_path / "m.onnx")

    def compile_(**options) -> Artifact:
        return odtc.compile(tmp_path / "m.onnx", batch=16, **options)

    whole = compile_().memory
    floor = floor_of(compile_)
    budgets = np.linspace(floor, whole.arena_bytes, 4).astype(int)
    plans = [compile_(memory_budget=int(budget)).memory for budget in budgets]
    calls = [len(memory.plan.calls) for memory in plans]
    assert all(memory.arena_bytes <= budget for memory, budget in zip(plans, budgets, strict=True))
    assert all(a.arena_bytes <= b.arena_bytes for a, b in pairwise(plans))
    assert calls == sorted(calls, reverse=True)
    assert calls[-1] == len(whole.plan.calls)


@pytest.mark.slow
def test_what_is_planned_can_be_compiled(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(tower(), path)
    points = odtc.plan(path).points
    assert points[0] == Point(odtc.compile(path).memory.arena_bytes, 1.0, points[0].calls, 0)
    assert all(a.time < b.time and a.arena_bytes > b.arena_bytes for a, b in pairwise(points))
    for point in (points[len(points) // 2], points[-1]):
        memory = odtc.compile(path, memory_budget=point.arena_bytes).memory
        assert memory.arena_bytes == point.arena_bytes
        assert len(memory.plan.calls) == point.calls == points[0].calls + point.repeated
    assert main(["plan", str(path), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert [point["arena_bytes"] for point in printed["points"]] == [
        point.arena_bytes for point in points
    ]
    assert printed["lower_bound_bytes"] <= points[-1].arena_bytes
    assert main(["plan", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert f"{points[0].arena_bytes:,}" in lines[1]
    assert f"{points[-1].arena_bytes:,}" in lines[-1]


@pytest.mark.parametrize(
    ("text", "size"),
    [
        *(("64MiB", 64 << 20), ("1.5 GB", 1_500_000_000), ("10kb", 10_000), ("2KiB", 2048)),
        *(("1048576", 1 << 20), (7, 7), ("3B", 3), ("0.5KiB", 512)),
    ],
)
def test_numbers_of_bytes(text: str | int, size: int) -> None:
    assert parse_bytes(text, "memory_budget") == size


@pytest.mark.parametrize(
    "text", ["", "much", "-1MiB", "0", 0, "1 e6", "5 parsecs", "0.1B", "1e9", "9" * 400, True]
)
def test_what_is_no_number_of_bytes(text: str | int) -> None:
    with pytest.raises(UsageError, match="is not a positive number of bytes"):
        parse_bytes(text, "memory_budget")
