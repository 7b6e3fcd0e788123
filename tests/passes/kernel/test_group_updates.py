"""Updates of small parameters in one launch: the same bits, in few calls, and never too late."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
import tvm
from tvm import relax
from tvm.relax import op
from tvm.script import tirx as T  # noqa: N812

import odtc
from benchmarks.models.digits import bn_model, digits_data
from odtc.backends.kernels.common import parsed
from odtc.backends.pipeline import phases
from odtc.core.ir.relax_calls import operator_of
from odtc.passes.contract import run_pipeline, tvm_passes
from odtc.passes.ir.bindings import bindings_of
from odtc.passes.kernel.bind_loops import BindLoops
from odtc.passes.kernel.group_updates import GroupUpdates
from tests.fast import fast_if
from tests.gpu.on_device import KINDS
from tests.passes.memory.assigning import assign_kernel

UPDATE = odtc.Update(
    odtc.Adam(), groups=[odtc.Group("*.bias", {"beta1": 0.5})], clip_norm=1.0, ema=0.9
)


def trained(artifact: odtc.Artifact) -> dict[str, np.ndarray]:
    trainer, (x, y, *_) = artifact.trainer(), digits_data()
    for step in range(3):
        part = slice(32 * step, 32 * step + 32)
        trainer.step(x[part], y[part], lr=0.01)
    return trainer.parameters()


@pytest.mark.parametrize("kind", fast_if("vulkan".__eq__, KINDS))
@pytest.mark.parametrize(
    "update",
    [pytest.param(odtc.Update(odtc.SGD(momentum=0.9)), marks=pytest.mark.slow), UPDATE],
    ids=["sgd", "all"],
)
def test_steps_have_the_same_bits_in_fewer_calls(
    kind: str, update: odtc.Update, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    onnx.save(bn_model(), tmp_path / "m.onnx")

    def compiled() -> odtc.Artifact:
        return odtc.compile(tmp_path / "m.onnx", f"host-{kind}", batch=32, optimizer=update)

    grouped = compiled()
    rows = [each for each in phases.ORDER if each.name != GroupUpdates.name]
    monkeypatch.setattr(phases, "ORDER", rows)
    single = compiled()
    counts = [len(each.memory.plan.calls) for each in (grouped, single)]
    assert counts[0] <= counts[1] - 6
    assert grouped.memory.arena_bytes <= single.memory.arena_bytes * (1 + 1 / 64)
    found, expected = map(trained, (grouped, single))
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)


SIZE = 4096
TENSOR = relax.TensorType((SIZE,), "float32")


@parsed.prim_func(private=True, s_tir=True)
def double(x: T.Buffer((4096,), "float32"), y: T.Buffer((4096,), "float32")) -> None:
    for i in T.parallel(4096):
        with T.sblock("double"):
            at = T.axis.spatial(4096, i)
            y[at] = x[at] * T.float32(2)


class Step:
    """A step line by line, with three parameters, beside two large tensors that set the peak."""

    def __init__(self, peak: int) -> None:
        self.params = [relax.Var(name, TENSOR) for name in ("x", "u", "v", "w")]
        self.x, self.u, self.v, self.w = self.params
        self.builder = relax.BlockBuilder()
        self.kernel = self.builder.add_func(double, "double")
        self.assign = self.builder.add_func(assign_kernel((SIZE,)), "assign")
        self.peak = relax.TensorType((peak // 8,), "float32")
        self.large = self.builder.add_func(assign_kernel((peak // 8,)), "large")

    def call(self, value: relax.Expr) -> relax.Var:
        return self.builder.emit(relax.call_tir(self.kernel, relax.Tuple([value]), TENSOR))

    def update(self, old: relax.Var, new: relax.Expr) -> relax.Var:
        arguments = relax.Tuple([old, new])
        return self.builder.emit(op.call_tir_inplace(self.assign, arguments, [0], [TENSOR]))


Lines = Callable[[Step], Sequence[relax.Expr]]
# The bytes of a gradient, and a peak beside which three of them may wait.
GRADIENT, PEAK = 4 * SIZE, 3 * 128 * 4 * SIZE


def grouped(lines: Lines, *, peak: int = PEAK, buffers: int = 16) -> tvm.IRModule:
    step = Step(peak)
    with step.builder.function("train_step", step.params):
        large = step.builder.emit(
            relax.call_tir(step.large, relax.Tuple([]), [step.peak, step.peak])
        )
        results = lines(step)
        step.builder.emit_func_output(relax.Tuple([*results, large]))
    blocks = tvm_passes(
        tvm.s_tir.transform.ConvertBlocksToOpaque, tvm.s_tir.transform.LowerOpaqueBlock
    )
    passes = (*blocks, BindLoops(64), GroupUpdates("train_step", buffers))
    return run_pipeline(passes, step.builder.finalize())


def calls(module: tvm.IRModule) -> list[str]:
    return [
        binding.value.args[0].name_hint
        for binding in bindings_of(module["train_step"])
        if operator_of(binding.value).startswith("relax.call_tir")
    ][1:]


def three(step: Step) -> list[relax.Expr]:
    return [step.update(old, step.call(step.x)) for old in (step.u, step.v, step.w)]


def test_they_wait_for_each_other() -> None:
    module = grouped(three)
    assert calls(module) == ["double", "double", "double", "updates"]
    assert "assign" not in {each.name_hint for each in module.get_global_vars()}


def test_no_more_gradients_wait_than_are_few_beside_the_peak() -> None:
    assert calls(grouped(three, peak=PEAK * 2 // 3)) == [
        *("double", "double", "double", "updates", "assign")
    ]
    assert "updates" not in calls(grouped(three, peak=PEAK // 4))


def test_no_launch_has_more_buffers_than_a_gpu_takes() -> None:
    assert calls(grouped(three, buffers=5)) == ["double", "double", "double", "updates", "assign"]


def test_none_waits_for_long_enough_to_be_read() -> None:
    """Later calls read the new parameter, directly or as the update's result."""

    def parameter(step: Step) -> list[relax.Expr]:
        first = step.update(step.u, step.call(step.x))
        read = step.call(step.u)
        return [first, step.update(step.v, read)]

    def result(step: Step) -> list[relax.Expr]:
        first = step.update(step.u, step.call(step.x))
        return [first, step.update(step.v, step.call(first))]

    def changed(step: Step) -> list[relax.Expr]:
        """The second one changes what the first one copies."""
        return [step.update(step.u, step.v), step.update(step.v, step.call(step.x))]

    assert calls(grouped(parameter)) == ["double", "assign", "double", "assign"]
    assert calls(grouped(result)) == ["double", "assign", "double", "assign"]
    assert calls(grouped(changed)) == ["double", "assign", "assign"]
