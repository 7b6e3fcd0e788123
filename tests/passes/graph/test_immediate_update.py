"""Updates move up to where they may run, and never past a reader of the old value."""

import tvm
from tvm import relax
from tvm.relax import op
from tvm.script import tirx as T  # noqa: N812

from odtc.backends.kernels.common import parsed
from odtc.passes.graph.immediate_update import ImmediateUpdate
from tests.passes.memory.assigning import assign_kernel

SHAPE = (4,)
TENSOR = relax.TensorType(SHAPE, "float32")


@parsed.prim_func(private=True, s_tir=True)
def double(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")) -> None:
    for i in range(4):
        with T.sblock("double"):
            at = T.axis.spatial(4, i)
            y[at] = x[at] * T.float32(2)


class Step:
    """Builds a step line by line; each line is bound to a name."""

    def __init__(self) -> None:
        self.params = [relax.Var(name, TENSOR) for name in ("w", "x")]
        self.w, self.x = self.params
        self.builder = relax.BlockBuilder()
        self.kernel = self.builder.add_func(double, "double")
        self.assign = self.builder.add_func(assign_kernel(SHAPE), "assign")

    def call(self, value: relax.Expr) -> relax.Var:
        return self.builder.emit(relax.call_tir(self.kernel, relax.Tuple([value]), TENSOR))

    def update(self, new: relax.Expr) -> relax.Var:
        arguments = relax.Tuple([self.w, new])
        return self.builder.emit(op.call_tir_inplace(self.assign, arguments, [0], [TENSOR]))


def order_after(build) -> list[str]:
    """Operators, in order, of a step after the pass."""
    step = Step()
    with step.builder.function("train_step", step.params):
        step.builder.emit_func_output(build(step))
    module = ImmediateUpdate("train_step").run(step.builder.finalize())
    assert isinstance(module, tvm.IRModule)
    return [
        binding.value.op.name.removeprefix("relax.")
        for block in module["train_step"].body.blocks
        for binding in block.bindings
    ]


def test_update_follows_its_gradient() -> None:
    def build(step: Step) -> relax.Expr:
        gradient = step.call(step.x)
        loss = step.call(step.call(step.x))
        step.update(gradient)
        return loss

    assert order_after(build) == ["call_tir", "call_tir_inplace", "call_tir", "call_tir"]


def test_update_waits_for_the_last_reader() -> None:
    def build(step: Step) -> relax.Expr:
        gradient = step.call(step.x)
        reader = step.call(step.w)
        loss = step.call(reader)
        step.update(gradient)
        return loss

    assert order_after(build) == ["call_tir", "call_tir", "call_tir_inplace", "call_tir"]


def test_update_waits_for_what_all_gradients_decide() -> None:
    """As clipping by norm does: the second gradient has a part in the first update."""

    def build(step: Step) -> relax.Expr:
        first = step.call(step.x)
        second = step.call(first)
        factor = step.call(second)
        loss = step.call(factor)
        step.update(factor)
        return loss

    assert order_after(build) == [*["call_tir"] * 3, "call_tir_inplace", "call_tir"]


def test_update_waits_for_the_last_reader_of_a_view() -> None:
    def build(step: Step) -> relax.Expr:
        view = step.builder.emit(op.reshape(step.w, (2, 2)))
        back = step.builder.emit(op.reshape(view, SHAPE))
        gradient = step.call(step.x)
        reader = step.call(back)
        loss = step.call(reader)
        step.update(gradient)
        return loss

    calls = ["reshape", "reshape", "call_tir", "call_tir", "call_tir_inplace", "call_tir"]
    assert order_after(build) == calls
