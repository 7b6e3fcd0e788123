"""Operators that are alike become one kernel, and the module is what it would be without that."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
import tvm
from tvm import relax
from tvm.relax import op as R  # noqa: N812

from benchmarks.step_time.cases import case_of
from odtc.backends import lowering
from odtc.backends.legalize import Legalize
from odtc.backends.targets import parse_target
from odtc.driver.options.step_options import StepOptions
from odtc.driver.preparation import prepare

FLOATS = relax.TensorType((2, 3), "float32")
THROUGH = ("relax.astype",)
Make = Callable[[relax.Expr, relax.Expr], relax.Expr]


def module_of(*made: Make) -> tvm.IRModule:
    """A function of two tensors that computes each of some operators."""
    builder = relax.BlockBuilder()
    x, y = relax.Var("x", FLOATS), relax.Var("y", FLOATS)
    with builder.function("f", [x, y]):
        with builder.dataflow():
            results = [builder.emit(make(x, y)) for make in made]
            result = builder.emit_output(relax.Tuple(results))
        builder.emit_func_output(result)
    return builder.get()


def legalized(module: tvm.IRModule) -> tuple[tvm.IRModule, list[str]]:
    """The module of kernels, and the operators for which a rule was asked."""
    asked: list[str] = []

    def counted(name: str):
        rule = tvm.ir.Op.get(name).get_attr("FLegalize")

        def ask(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
            asked.append(name)
            return rule(builder, call)

        return ask

    names = {
        call.op.name for call in _calls(module) if call.op.name not in ("relax.call_tir", *THROUGH)
    }
    made = Legalize({name: counted(name) for name in names}, THROUGH, stay=True)
    return made.run(module), asked


def _calls(module: tvm.IRModule) -> list[relax.Call]:
    (block,) = module["f"].body.blocks
    return [each.value for each in block.bindings if isinstance(each.value, relax.Call)]


def usual(module: tvm.IRModule) -> tvm.IRModule:
    return relax.transform.LegalizeOps(skip_ops=list(THROUGH))(module)


ALIKE = {
    "tensors": (R.add, lambda x, y: R.add(y, x)),
    "constants": (lambda x, y: R.add(x, relax.const(2.0)), lambda x, y: R.add(y, relax.const(2.0))),
    "attributes": (lambda x, y: R.permute_dims(x, [1, 0]), lambda x, y: R.permute_dims(y, [1, 0])),
    "shapes": (lambda x, y: R.reshape(x, (6,)), lambda x, y: R.reshape(y, (6,))),
    "numbers": (lambda x, y: R.clip(x, 0.0, 6.0), lambda x, y: R.clip(y, 0.0, 6.0)),
}
UNLIKE = {
    "twice the same": (R.add, lambda x, y: R.add(x, x)),
    "constants": (lambda x, y: R.add(x, relax.const(2.0)), lambda x, y: R.add(y, relax.const(3.0))),
    "a constant and a tensor": (
        R.add,
        lambda x, y: R.add(x, relax.const(np.ones((2, 3), np.float32))),
    ),
    "attributes": (lambda x, y: R.permute_dims(x, [1, 0]), lambda x, y: R.permute_dims(y, [0, 1])),
    "shapes": (lambda x, y: R.reshape(x, (6,)), lambda x, y: R.reshape(y, (6, 1))),
    "numbers": (lambda x, y: R.clip(x, 0.0, 6.0), lambda x, y: R.clip(y, 0.0, 5.0)),
    "operators": (R.add, lambda x, y: R.multiply(y, x)),
    "sides": (
        lambda x, y: R.subtract(x, relax.const(1.0)),
        lambda x, y: R.subtract(relax.const(1.0), x),
    ),
}


@pytest.mark.parametrize(
    ("of", "kernels"),
    [*((each, 1) for each in ALIKE.values()), *((each, 2) for each in UNLIKE.values())],
    ids=[*(f"alike {name}" for name in ALIKE), *(f"other {name}" for name in UNLIKE)],
)
def test_what_is_alike_is_written_once(of: tuple[Make, Make], kernels: int) -> None:
    module = module_of(*of)
    made, asked = legalized(module)
    assert len(asked) == kernels
    tvm.ir.assert_structural_equal(made, usual(module))


def test_what_rules_look_through_is_never_alike() -> None:
    """A rule may read a tensor as it is stored, behind a cast that another tensor does not have."""
    builder = relax.BlockBuilder()
    x, half = relax.Var("x", FLOATS), relax.Var("h", relax.TensorType((2, 3), "float16"))
    with builder.function("f", [x, half]):
        with builder.dataflow():
            wide = builder.emit(R.astype(half, "float32"))
            results = [builder.emit(R.exp(each)) for each in (x, wide, wide)]
            result = builder.emit_output(relax.Tuple(results))
        builder.emit_func_output(result)
    assert legalized(builder.get())[1] == ["relax.exp"] * 3


def _each_alone(self: Legalize, module: tvm.IRModule) -> tvm.IRModule:
    """The pass without a memory."""
    skipped = list(self.looked_through) if self.stay else None
    return relax.transform.LegalizeOps(dict(self.rules), skip_ops=skipped)(module)


CPU, GPU = "host-cpu{threads=2}", "android-opencl"
FAST, SLOW = [(CPU, "bert_tiny"), (GPU, "char_lstm")], [(GPU, "bert_tiny"), (CPU, "shufflenet_v2")]


@pytest.mark.parametrize(
    ("target", "name"), [*FAST, *(pytest.param(*each, marks=pytest.mark.slow) for each in SLOW)]
)
def test_the_kernels_of_a_step_are_the_same(
    target: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = case_of(name, 2)
    path = tmp_path / "model.onnx"
    onnx.save(case.model, path)
    step = prepare(path, parse_target(target), StepOptions(batch=2, loss=case.loss), lambda _: None)
    once = lowering.to_kernels(*step.kernels)
    monkeypatch.setattr(Legalize, "run", _each_alone)
    tvm.ir.assert_structural_equal(once, lowering.to_kernels(*step.kernels))
