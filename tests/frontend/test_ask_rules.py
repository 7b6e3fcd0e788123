"""A dry run asks the rules that the gradient pass would ask, and leaves what is odd to the pass."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest
import tvm
from onnx import TensorProto, helper
from tvm import relax
from tvm.relax import op as R  # noqa: N812
from tvm.relax.op.grad import no_grad

from odtc.backends.targets import parse_target
from odtc.driver.examination import examine
from odtc.driver.options.step_options import StepOptions
from odtc.frontend.backward.ask_rules import all_rules_answer
from odtc.frontend.gradients.table import register_gradients

Rule = Callable[[relax.Var, relax.Call, relax.Expr, relax.BlockBuilder], Any]
_TANH = "relax.tanh"
# A rule takes the place of those of lower levels.
_LEVELS = itertools.count(100)


def _module(build: Callable[[relax.BlockBuilder, relax.Var], relax.Expr]) -> tvm.IRModule:
    register_gradients()
    builder, x = relax.BlockBuilder(), relax.Var("x", relax.TensorType((2, 3), "float32"))
    with builder.function("f", [x]):
        with builder.dataflow():
            result = builder.emit_output(R.sum(builder.emit(build(builder, x))))
        builder.emit_func_output(result)
    return builder.finalize()


def _answered(module: tvm.IRModule) -> bool:
    return all_rules_answer(module, "f", module["f"].body.body)


def _passes(module: tvm.IRModule) -> bool:
    """Whether TVM's own pass makes gradients."""
    try:
        relax.transform.Gradient("f", list(module["f"].params))(module)
    except Exception:
        return False
    return True


BUILT: dict[str, Callable[[relax.BlockBuilder, relax.Var], relax.Expr]] = {
    "a chain": lambda b, x: R.exp(b.emit(R.tanh(x))),
    "a broadcast": lambda b, x: R.add(x, b.emit(R.sum(x, [0], keepdims=True))),
    "a tuple": lambda b, x: R.concat([x, b.emit(R.tanh(x))], axis=1),
    "a part of a tuple": lambda b, x: b.emit(relax.TupleGetItem(b.emit(R.split(x, 3, 1)), 1)),
    "a constant": lambda b, x: R.multiply(x, relax.const(2.0)),
    "a shape": lambda b, x: R.reshape(x, (3, 2)),
    "what is not reached": lambda b, x: R.where(b.emit(R.isnan(x)), x, x),
    "what has no rule": lambda b, x: R.sort(x),
}


@pytest.mark.parametrize("name", BUILT)
def test_rules_answer_where_the_pass_makes_gradients(name: str) -> None:
    module = _module(BUILT[name])
    assert _answered(module) == _passes(module) == (name != "what has no rule")


def _raises(*_: object) -> list[relax.Expr]:
    raise ValueError("no gradient of this one")


# What a rule may do wrong, and what the pass says then.
WRONG: dict[str, tuple[Rule, str]] = {
    "raises": (_raises, "no gradient of this one"),
    "gives none": (lambda *_: [], "partials number"),
    "gives two": (lambda _, __, grad, ___: [grad, grad], "partials number"),
    "gives another shape": (lambda _, __, grad, ___: [R.sum(grad, [0])], "reduction length"),
}


@pytest.fixture
def with_rule():
    """Replaces Tanh's rule until the test ends."""
    register_gradients()
    before = tvm.ir.Op.get(_TANH).get_attr("FPrimalGradient")

    def put(rule: Rule) -> None:
        tvm.ir.register_op_attr(_TANH, "FPrimalGradient", rule, level=next(_LEVELS))

    yield put
    put(before)


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_answer_is_left_to_the_pass(name: str, with_rule, tmp_path: Path) -> None:
    rule, said = WRONG[name]
    with_rule(rule)
    assert not _answered(_module(BUILT["a chain"]))
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["N", 3]) for n in "xy"]
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Tanh", ["h"], ["y"])]
    weight = helper.make_tensor("w", TensorProto.FLOAT, [3, 3], [0.1 * n for n in range(9)])
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], [weight])
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path / "m.onnx")
    with pytest.raises(Exception, match=said):
        examine(str(tmp_path / "m.onnx"), parse_target("host-cpu"), StepOptions())


def test_no_gradient_ends_a_way() -> None:
    """The rules are not asked behind a mark."""
    module = _module(lambda b, x: R.add(x, b.emit(no_grad(b.emit(R.sort(x))))))
    assert _answered(module)
    assert _passes(module)
