"""Micro-batches within budgets: how many there are, what is prepared for it, and what is said."""

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper, numpy_helper

import odtc
from odtc.core.errors import BudgetError
from odtc.core.process.progress import silent
from odtc.driver.drafts.source import read_source
from odtc.driver.options.step_options import StepOptions
from odtc.driver.splitting import Cuts
from odtc.passes.checkpoint.cuts import fastest
from tests.numeric.mlp import (
    mlp_artifact,
)
from tests.numeric.plans.test_memory_budget import floor_of, tower
from tests.numeric.training.test_micro_batches import TARGET, close, losses_of


def chain(folder: Path) -> Path:
    """Convolutions of images, whose activations are most of what a step holds."""
    rng = np.random.default_rng(6)
    weights = {f"w{n}": rng.standard_normal((4, 4, 3, 3)).astype(np.float32) / 6 for n in range(3)}
    nodes, data = [], "x"
    for name in weights:
        nodes += [
            helper.make_node("Conv", [data, name], [f"{name}c"], pads=[1] * 4),
            helper.make_node("Tanh", [f"{name}c"], [f"{name}t"]),
        ]
        data = f"{name}t"
    nodes += [
        helper.make_node("GlobalAveragePool", [data], ["p"]),
        helper.make_node("Flatten", ["p"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "chain",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 4, 16, 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 4])],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    path = folder / "chain.onnx"
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path
    )
    return path


def test_a_budget_is_met_by_what_is_fastest(tmp_path: Path) -> None:
    path = chain(tmp_path)

    def compile_(**options) -> odtc.Artifact:
        return odtc.compile(path, "host-cpu{threads=1}", batch=4, **options)

    found = odtc.plan(path, "host-cpu{threads=1}", batch=4)
    assert not found.refusal
    whole, floor = compile_(), floor_of(compile_)
    alone = floor_of(compile_, micro_batches=1)
    assert found.points[-1].budget_bytes == floor < alone <= whole.memory.arena_bytes
    rng = np.random.default_rng(7)
    data = [(rng.standard_normal((4, 4, 16, 16), np.float32), rng.integers(0, 4, 4))] * 3
    wanted = whole.trainer(threads=1)
    losses = losses_of(wanted, data)
    points = [next(p for p in found.points if p.micro_batches > 1), found.points[-1]]
    for point in points:
        artifact = compile_(memory_budget=point.budget_bytes)
        memory, manifest = artifact.memory, artifact.manifest
        assert manifest.micro_batches == memory.micro_batches == point.micro_batches > 1
        assert memory.accumulator_bytes == point.accumulator_bytes == 3 * 4 * 4 * 3 * 3 * 4
        assert memory.optimizer_bytes == memory.accumulator_bytes == manifest.sizes.optimizer
        assert memory.arena_bytes + memory.accumulator_bytes == point.budget_bytes
        split = artifact.trainer(threads=1)
        np.testing.assert_allclose(losses_of(split, data), losses, rtol=1e-6)
        close(split.parameters(), wanted.parameters(), 2e-6)
    with pytest.raises(BudgetError, match=f"at least {floor:,} bytes"):
        compile_(memory_budget=floor - 1)
    assert compile_(memory_budget=alone).memory.arena_bytes <= alone


def test_without_a_budget_no_smaller_batch_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unexpected(*_, **__) -> None:
        raise AssertionError

    monkeypatch.setattr("odtc.driver.parts.check_part", unexpected)
    assert mlp_artifact(tmp_path, odtc.SGD()).manifest.micro_batches == 1


@pytest.mark.slow
def test_a_budget_cuts_no_batch_statistics_but_says_what_that_would_bring(tmp_path: Path) -> None:
    path = tmp_path / "tower.onnx"
    onnx.save(tower(), path)

    def compile_(**options) -> odtc.Artifact:
        return odtc.compile(path, "host-cpu{threads=1}", **options)

    floor = floor_of(compile_)
    with pytest.raises(BudgetError) as caught:
        compile_(memory_budget=floor - 1)
    assert "--allow-split-batchnorm lowers that: 2 micro-batches need" in str(caught.value.hint)
    kept = compile_(memory_budget=floor).manifest
    assert kept.micro_batches == 1
    assert any("no micro-batches: it changes what 4 batch norm" in note for note in kept.notes)
    artifact = compile_(memory_budget=floor - 1, allow_split_batchnorm=True)
    memory = artifact.memory
    assert artifact.manifest.micro_batches > 1
    assert memory.arena_bytes + memory.accumulator_bytes < floor
    still = odtc.plan(path, freeze_batch_norm=True, train="w*")
    assert not still.refusal


def test_numbers_that_cannot_fit_are_not_prepared(tmp_path: Path) -> None:
    """And what is found is what would be found among all."""
    onnx.save(tower(layers=2), tmp_path / "m.onnx")
    options = StepOptions(batch=8, allow_split_batchnorm=True, dropout=False)
    source = read_source(tmp_path / "m.onnx", TARGET, options, silent)
    every = list(Cuts(source, silent))
    for budget in (every[-1].floor, every[1].floor):
        said: list[str] = []
        cuts = Cuts(source, said.append)
        found, expected = fastest(cuts.within(budget), budget), fastest(every, budget)
        assert found is not None
        assert expected is not None
        assert (found.cut.count, found.nbytes) == (expected.cut.count, expected.nbytes)
        prepared = [text for text in said if text.endswith("micro-batches")]
        if budget == every[-1].floor:
            assert "make those of 2 micro-batches" not in prepared
            assert prepared[-1] == "make those of 8 micro-batches"


def test_where_only_plans_are_wanted_no_evaluation_is_lowered(tmp_path: Path) -> None:
    """The recomputation problem is the same."""
    onnx.save(tower(layers=2), tmp_path / "m.onnx")
    source = read_source(tmp_path / "m.onnx", TARGET, StepOptions(batch=4), silent)
    whole, plans = (next(iter(Cuts(source, silent, for_plans=only))) for only in (False, True))
    assert plans.problem == whole.problem
    called = {binding.value.args[0] for binding in plans.made.ordered.calls.bindings}
    kernels, more = (len(cut.made.ordered.module.functions) for cut in (plans, whole))
    assert kernels == len(called) + 1 < more
