"""A step with channels last computes what it computes without, whichever operators have them so."""

import json
import math
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from torch import nn
from tvm import relax
from tvm.relax import op as R  # noqa: N812

import odtc
from benchmarks.models.pytorch.export import export
from odtc.artifact import Artifact
from odtc.backends.cost import layout_cost
from odtc.backends.cost.layout_cost import layout_costs
from odtc.backends.families import family_of
from odtc.backends.kernels.winograd import cut as winograd_cut
from odtc.backends.targets import parse_target
from odtc.cli.main import main
from odtc.cli.model.layouts import report
from odtc.core.artifact.layout_plan import LayoutPlan
from odtc.core.errors import UsageError
from odtc.core.ir.layouts import LAST, SECOND
from odtc.passes.layout.plan_text import forced, parse_plan
from tests.numeric.conftest import relative_error
from tests.passes.test_layout_solver import chain

BATCH, SIDE, WIDE, NARROW = 2, 9, 32, 16


class Block(nn.Module):
    """An inverted residual: a wide depthwise convolution between two of one tap, and a shortcut."""

    def __init__(self, stride: int = 1) -> None:
        super().__init__()
        self.stride = stride
        self.layers = nn.Sequential(
            nn.Conv2d(NARROW, WIDE, 1, bias=False),
            nn.BatchNorm2d(WIDE),
            nn.ReLU6(),
            nn.Conv2d(WIDE, WIDE, 3, stride, 1, groups=WIDE, bias=False),
            nn.BatchNorm2d(WIDE),
            nn.ReLU(),
            nn.Conv2d(WIDE, NARROW, 1, bias=False),
            nn.BatchNorm2d(NARROW),
        )

    def forward(self, x):
        y = self.layers(x)
        return x + y if self.stride == 1 else y


class Branches(nn.Module):
    """Convolutions with biases and poolings side by side, whose results are joined."""

    def __init__(self) -> None:
        super().__init__()
        self.ways = nn.ModuleList(
            [
                nn.Sequential(nn.Conv2d(NARROW, NARROW, 3, padding=1), nn.ReLU()),
                nn.Sequential(nn.Conv2d(NARROW, NARROW, 3, 1, 2, dilation=2), nn.ReLU()),
                nn.MaxPool2d(3, 1, 1),
                nn.AvgPool2d(3, 1, 1),
            ]
        )
        self.last = nn.Conv2d(4 * NARROW, NARROW, 1, stride=2)

    def forward(self, x):
        return self.last(torch.cat([way(x) for way in self.ways], 1))


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    """Two blocks after a convolution, then branches, with a head of other operators.

    Shifts of normalisations are not zero: one that the next normalisation takes away again stays as
    it is but for rounding, of which zeros would show nothing else.
    """
    net = nn.Sequential(
        nn.Conv2d(3, NARROW, 3, padding=1),
        nn.Tanh(),
        Block(),
        Block(stride=2),
        nn.Hardswish(),
        Branches(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(NARROW, 5),
    )
    torch.manual_seed(0)
    for each in net.modules():
        if isinstance(each, nn.BatchNorm2d):
            nn.init.uniform_(each.weight, 0.5, 1.5)
            nn.init.uniform_(each.bias, 0.5, 1.5)
    path = tmp_path_factory.mktemp("layouts") / "model.onnx"
    x = np.zeros((BATCH, 3, SIDE, SIDE), np.float32)
    export(net, {"x": x}, path)
    onnx.checker.check_model(path)
    return path


@pytest.fixture(scope="module")
def native(model: Path) -> Artifact:
    return odtc.compile(model, batch=BATCH)


def layouts_of(artifact: Artifact) -> LayoutPlan:
    plan = artifact.manifest.layouts
    assert plan is not None
    return plan


def steps_of(artifact: Artifact, count: int = 3) -> tuple[list[float], dict[str, np.ndarray]]:
    """Losses of some steps, and the weights after them."""
    rng = np.random.default_rng(0)
    trainer = artifact.trainer()
    losses = [
        trainer.step(
            rng.standard_normal((BATCH, 3, SIDE, SIDE)).astype(np.float32),
            rng.integers(0, 5, BATCH),
            0.05,
        )
        for _ in range(count)
    ]
    return losses, trainer.parameters()


def plan_of(artifact: Artifact, path: Path, layouts: Sequence[str], seed: int = 0) -> Path:
    """A plan that gives each operator that has a choice one of these layouts."""
    draw = random.Random(seed)
    names = [each.name for each in layouts_of(artifact).operators]
    path.write_text("".join(f"{name} {draw.choice(layouts)}\n" for name in names))
    return path


@pytest.fixture(scope="module")
def chosen(model: Path) -> Artifact:
    return odtc.compile(model, batch=BATCH, layout="auto")


def assert_same(found: Artifact, wanted: Artifact) -> None:
    (losses, weights), (wanted_losses, wanted_weights) = steps_of(found), steps_of(wanted)
    np.testing.assert_allclose(losses, wanted_losses, rtol=1e-4)
    for name, value in wanted_weights.items():
        assert relative_error(weights[name], value) < 1e-3, name


def test_the_best_plan_is_proven_and_computes_the_same(chosen: Artifact, native: Artifact) -> None:
    plan = layouts_of(chosen)
    assert plan.is_proven
    assert plan.seconds <= plan.native_seconds
    assert native.manifest.layouts is None
    assert_same(chosen, native)


@pytest.fixture(scope="module")
def all_last(model: Path, chosen: Artifact, tmp_path_factory) -> tuple[str, Artifact]:
    """A plan of channels last for all that can, and the step."""
    plan = str(plan_of(chosen, tmp_path_factory.mktemp("last") / "plan.txt", [LAST]))
    return plan, odtc.compile(model, batch=BATCH, layout=plan)


def test_a_plan_of_channels_second_is_the_step_that_nobody_asked_for(
    model: Path, chosen: Artifact, native: Artifact, tmp_path: Path
) -> None:
    """Kernel by kernel: what reads normalised data, slices and copies does so with a plan, too."""
    plan = plan_of(chosen, tmp_path / "plan.txt", [SECOND])
    found = odtc.compile(model, batch=BATCH, layout=str(plan))
    assert found.memory.plan.calls == native.memory.plan.calls
    assert any("batch_statistics" in call for call in found.memory.plan.calls)
    assert found.memory.arena_bytes == native.memory.arena_bytes
    (losses, weights), (wanted_losses, wanted) = steps_of(found), steps_of(native)
    assert losses == wanted_losses
    assert all(np.array_equal(weights[name], value) for name, value in wanted.items())


def test_all_channels_last_compute_the_same(
    all_last: tuple[str, Artifact], native: Artifact
) -> None:
    _, found = all_last
    # Three products of each convolution, normalisations, rectifiers and sums.
    assert len(layouts_of(found).operators) > 40
    assert {each.layout for each in layouts_of(found).operators} == {LAST}
    assert_same(found, native)


def test_a_budget_holds_with_the_same_bits(model: Path, all_last: tuple[str, Artifact]) -> None:
    plan, whole = all_last
    budget = whole.memory.arena_bytes * 8 // 10
    small = odtc.compile(model, batch=BATCH, layout=plan, memory_budget=budget, micro_batches=1)
    assert small.memory.arena_bytes <= budget
    # Bytes are worth something only where there is a budget.
    assert layouts_of(small).price > layouts_of(whole).price == 0
    assert layouts_of(small).nbytes == layouts_of(whole).nbytes > 0
    (losses, weights), (wanted_losses, wanted) = steps_of(small), steps_of(whole)
    assert losses == wanted_losses
    assert all(np.array_equal(weights[name], value) for name, value in wanted.items())


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """By the model of the target, convolutions gain a thousandfold with channels last."""
    for shares in (layout_cost._POINT, layout_cost._WINDOW):
        monkeypatch.setitem(shares, "convolution", {False: 1e-3, True: 1.0})
    return monkeypatch


def test_what_the_model_is_too_rough_for_leaves_the_step_as_it_is(
    model: Path, eager: pytest.MonkeyPatch
) -> None:
    eager.setattr(layout_cost, "ERROR", 1e9)
    plan = layouts_of(odtc.compile(model, batch=BATCH, layout="auto"))
    assert {each.layout for each in plan.operators} == {SECOND}
    assert plan.bound < plan.seconds == plan.native_seconds
    assert f"no plan has less than {plan.bound * 1e3:.3f} ms" in report(plan)[1]


def test_under_a_budget_the_layouts_with_fewer_bytes_win(
    model: Path, native: Artifact, eager: pytest.MonkeyPatch
) -> None:
    """With bytes as dear as can be."""
    eager.setattr(layout_cost, "_MADE_AGAIN", 1.0)
    whole = odtc.compile(model, batch=BATCH, layout="auto")
    budget = whole.memory.arena_bytes
    small = odtc.compile(model, batch=BATCH, layout="auto", memory_budget=budget, micro_batches=1)
    assert layouts_of(small).nbytes < layouts_of(whole).nbytes
    assert layouts_of(small).seconds > layouts_of(whole).seconds
    assert small.memory.arena_bytes <= budget
    assert_same(small, native)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_any_plan_computes_the_same_and_its_copies_are_in_the_arena(
    model: Path, chosen: Artifact, native: Artifact, tmp_path: Path, seed: int
) -> None:
    plan = plan_of(chosen, tmp_path / "plan.txt", [SECOND, LAST], seed)
    found = odtc.compile(model, batch=BATCH, layout=str(plan))
    wanted = len(layouts_of(found).copies)
    assert wanted > 10
    assert sum("relayout" in call for call in found.memory.plan.calls) == wanted
    assert not any("relayout" in call for call in native.memory.plan.calls)
    assert_same(found, native)


def test_inspect_prints_a_plan_that_compile_takes(
    model: Path, chosen: Artifact, tmp_path: Path, capsys
) -> None:
    saved, again = tmp_path / "chosen.odtc", tmp_path / "again.odtc"
    chosen.save(saved)
    assert main(["inspect", str(saved), "--layouts"]) == 0
    text = capsys.readouterr().out
    assert "no plan takes less" in text
    assert f"# {layouts_of(chosen).nbytes:,} bytes of copies" in text
    (tmp_path / "plan.txt").write_text(text)
    options = ["--batch", str(BATCH), "--layout", str(tmp_path / "plan.txt"), "-o", str(again)]
    assert main(["compile", str(model), *options]) == 0
    capsys.readouterr()
    found = layouts_of(odtc.load(again))
    assert found.operators == layouts_of(chosen).operators
    assert found.copies == layouts_of(chosen).copies
    assert main(["inspect", str(again), "--layouts", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)["layouts"]
    assert len(said["operators"]) == len(found.operators)
    assert not said["proven"]


def test_a_step_without_a_choice_says_so() -> None:
    assert report(None) == ["# all images of the step have the layout NCHW"]


def test_a_plan_is_read_without_its_comments() -> None:
    text = "# head\n\n t0_ NHWC  # costs\nt1_ NCHW\n"
    assert parse_plan(text, "plan.txt") == {"t0_": LAST, "t1_": SECOND}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("t0_\n", "line 1 is not an operator"),
        ("a NHWC\na NCHW\n", "line 2 names an operator again"),
    ],
)
def test_a_plan_that_is_none_is_refused(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse_plan(text, "plan.txt")


def test_a_plan_of_another_step_is_refused() -> None:
    problem = chain([(5, 2), (5, 2)], 2)
    assert forced(problem, {"op1": LAST}).seconds == 5 + 2 + 2
    with pytest.raises(UsageError, match="cannot run in the layout 'CNHW'"):
        forced(problem, {"op1": "CNHW"})
    with pytest.raises(UsageError, match="has no operator 'op2'"):
        forced(problem, {"op2": LAST})


def test_costs_are_those_of_a_target() -> None:
    target = parse_target("android-cpu").resolved()
    costs = layout_costs(target)
    assert 0 < costs.copy(1 << 10) < costs.copy(1 << 20)
    assert 0 < costs.written(1 << 10) < costs.written(1 << 20)
    assert costs.price == 0 < layout_costs(target, is_tight=True).price
    assert costs.most_copies == family_of(target).most_copies


@pytest.mark.parametrize("operator", [R.nn.conv2d, R.nn.conv2d_transpose])
def test_costs_know_the_form_with_the_fewest_products(
    monkeypatch: pytest.MonkeyPatch, operator: Callable[..., relax.Call]
) -> None:
    """With channels second alone, and where a kernel takes it."""
    target = parse_target("android-cpu").resolved()

    def seconds(side: int, layout: str) -> float:
        shapes = {"x": (2, 128, side, side), "w": (128, 128, 3, 3)}
        x, w = (relax.Var(n, relax.TensorType(s, "float32")) for n, s in shapes.items())
        call = relax.BlockBuilder().normalize(operator(x, w, padding=1))
        return layout_costs(target).call(call, layout)

    found = {(side, layout): seconds(side, layout) for side in (28, 2) for layout in (SECOND, LAST)}
    monkeypatch.setattr(winograd_cut, "_MARGIN", math.inf)
    direct = {at: seconds(*at) for at in found}
    assert found[28, SECOND] < direct[28, SECOND] / 1.15
    assert {at: found[at] for at in found if at != (28, SECOND)} == {
        at: direct[at] for at in found if at != (28, SECOND)
    }
