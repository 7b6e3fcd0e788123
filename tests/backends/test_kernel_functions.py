"""Every function that a rule may call has code on every kind of target."""

import numpy as np
import pytest
import tvm
from tvm import s_tir, te, tirx
from tvm.ir import Expr, Op

from odtc.backends.families import family_of
from odtc.backends.targets import Target, parse_target
from odtc.backends.vector_math import register_vector_math
from odtc.core.ir.kernel_functions import FUNCTIONS, MATHS
from odtc.dialect.lowered import require_lowered
from odtc.dialect.slopes import by_input
from odtc.frontend.gradients.table import register_gradients

TARGETS = ("host-cpu", "android-cpu", "android-opencl", "android-vulkan")
BINARY = ("tirx.atan2", "tirx.pow")
COUNT = 64


def kernel(name: str, target: Target) -> tirx.PrimFunc:
    """One expression for each element: a vector of them on a CPU, an item each on a GPU."""

    def call(x: Expr) -> Expr:
        arguments = [x, x] if name in BINARY else [x]
        return tirx.call_intrin("float32", Op.get(name), *arguments)

    x = te.placeholder((COUNT,), "float32", "x")
    y = te.compute((COUNT,), lambda i: call(x[i]), "y")
    made = te.create_prim_func([x, y]).with_attr("global_symbol", name.replace(".", "_"))
    schedule = s_tir.Schedule(made)
    outer, inner = schedule.split(*schedule.get_loops(schedule.get_sblock("y")), [None, 16])
    if target.kind == "llvm":
        schedule.vectorize(inner)
    else:
        schedule.bind(outer, "blockIdx.x")
        schedule.bind(inner, "threadIdx.x")
    return schedule.mod["main"]


@pytest.mark.parametrize("spec", TARGETS)
def test_functions_have_code(spec: str) -> None:
    """All in one module, which is lowered as a step's kernels are."""
    register_vector_math()
    target = parse_target(spec).resolved()
    kernels = {name.replace(".", "_"): kernel(name, target) for name in sorted(MATHS)}
    with target.to_tvm(), family_of(target).compiling():
        assert tvm.tirx.build(tvm.IRModule(kernels), target.to_tvm())


def test_a_rule_without_code_cannot_be_made() -> None:
    register_gradients()
    with pytest.raises(ValueError, match=r"no code is made of tirx.fmod on some targets"):
        by_input(lambda x: tirx.fmod(x, x))
    assert "tirx.fmod" not in FUNCTIONS
    x = tirx.Var("x", "float32")
    both = tirx.cosh(x) + tirx.sinh(x)
    assert require_lowered(both).same_as(both)


@pytest.mark.parametrize("name", ["cosh", "sinh"])
def test_hyperbolic_functions(name: str) -> None:
    """Within a few units in the last place, over all of the line."""
    register_vector_math()
    target = parse_target("host-cpu").resolved()
    module = tvm.IRModule(
        {"main": kernel(f"tirx.{name}", target).with_attr("global_symbol", "main")}
    )
    run = tvm.tirx.build(module, target.to_tvm())["main"]
    ends = [0.0, -0.0, 1e-30, 89.0, -89.0, 89.41, 100.0, -100.0, np.inf, -np.inf, np.nan, 1.0]
    rest = np.concatenate([np.linspace(-1.1, 1.1, 26), np.linspace(-88, 88, 26)])
    x = np.concatenate([ends, rest]).astype(np.float32)
    result = tvm.runtime.empty((COUNT,), "float32")
    run(tvm.runtime.tensor(x), result)
    with np.errstate(over="ignore"):
        expected = getattr(np, name)(x.astype(np.float64)).astype(np.float32)
    np.testing.assert_allclose(result.numpy(), expected, rtol=2e-6)
    if name == "sinh":
        assert np.array_equal(np.signbit(result.numpy()[:2]), [False, True])
