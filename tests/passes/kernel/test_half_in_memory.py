"""Kernels that hold float16 in memory, and compute in float32: every form of an expression."""

from collections.abc import Callable

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import ir, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.passes.kernel.bind_loops import BindLoops
from odtc.passes.kernel.half_in_memory import HalfInMemory
from tests.gpu.on_device import KINDS, run_kernel

SIZE = 40
Value = Callable[[tirx.Buffer, ir.Expr], ir.Expr]


def half(value: float) -> ir.Expr:
    return tirx.const(value, "float16")


FORMS: dict[str, tuple[Value, Callable[[np.ndarray], np.ndarray]]] = {
    "copy": (lambda x, i: x[i], lambda x: x),
    "padded": (
        lambda x, i: tirx.if_then_else(i < 30, x[i], half(0.5)),
        lambda x: np.where(np.arange(SIZE) < 30, x, 0.5),
    ),
    "chosen": (
        lambda x, i: tirx.Select(x[i] > half(0.0), x[i], half(0.25)),
        lambda x: np.where(x > 0, x, 0.25),
    ),
    "rectified": (lambda x, i: tirx.max(x[i], half(0.0)), lambda x: np.maximum(x, 0)),
    "limited": (lambda x, i: tirx.min(x[i], half(1.0)), lambda x: np.minimum(x, 1)),
    "arithmetic": (
        lambda x, i: x[i] * x[i] + x[i] / half(4.0) - half(2.0),
        lambda x: x * x + x / 4 - 2,
    ),
    "rounded": (lambda x, i: (x[i].astype("float32") * 3.0).astype("float16"), lambda x: x * 3),
}


def kernel(value: Value, *scopes: str) -> tvm.IRModule:
    """Launches that store a value of each element, by way of private memory of a scope if given."""
    with IRBuilder() as builder:
        with T.prim_func(s_tir=True):
            T.func_name("main")
            T.func_attr({"tirx.noalias": True})
            x, y = (T.arg(name, T.buffer((SIZE,), "float16")) for name in "xy")
            for scope in scopes or ("",):
                with T.parallel(SIZE) as i:
                    stored = value(x, i)
                    if scope:
                        own = T.alloc_buffer((1,), "float16", scope=scope)
                        T.buffer_store(own, stored, [0])
                        stored = tirx.BufferLoad(own, [0])
                    T.buffer_store(y, stored, [i])
        made = builder.get()
    return BindLoops(8).run(tvm.IRModule({"main": made}))


def computed_in_half(module: tvm.IRModule) -> list[ir.Expr]:
    """Expressions of float16 but for loads, and casts that are stored."""
    return of_half(module["main"].body)


def of_half(body: tirx.Stmt) -> list[ir.Expr]:
    """The same of a body."""
    found: list[ir.Expr] = []
    forms = (tirx.Add, tirx.Sub, tirx.Mul, tirx.Div, tirx.Min, tirx.Max, tirx.Select, ir.Call)
    tvm_ffi.structural_walk(body, (forms, found.append))
    return [each for each in found if str(getattr(each.ty, "dtype", "")) == "float16"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", FORMS)
def test_values_are_those_of_float32_rounded_once(kind: str, form: str) -> None:
    value, expected = FORMS[form]
    x = np.random.default_rng(0).standard_normal(SIZE).astype(np.float16)
    module = HalfInMemory(by_function=kind == "opencl").run(kernel(value))
    assert not computed_in_half(module)
    found = run_kernel(kind, module["main"], [x], (SIZE,), "float16", planned=False)
    np.testing.assert_array_equal(found, expected(x.astype(np.float32)).astype(np.float16))


def own_dtype(module: tvm.IRModule) -> str:
    found: list[tirx.AllocBuffer] = []
    tvm_ffi.structural_walk(module["main"].body, (tirx.AllocBuffer, found.append))
    (allocation,) = found
    return str(allocation.buffer.dtype)


def test_private_memory_is_wide() -> None:
    module = HalfInMemory().run(kernel(FORMS["arithmetic"][0], "local"))
    assert own_dtype(module) == "float32"
    assert not computed_in_half(module)


def test_kernels_for_it_stay_where_the_gpu_computes_with_it() -> None:
    """Those that hold it in private memory; all others need no arithmetic then, either."""
    value = FORMS["arithmetic"][0]
    product = HalfInMemory(computes=True).run(kernel(value, "local"))
    assert own_dtype(product) == "float16"
    assert computed_in_half(product)
    assert not computed_in_half(HalfInMemory(computes=True).run(kernel(value)))


def test_of_several_launches_only_those_for_it_stay() -> None:
    """A data gradient of strides has a launch for each phase, some with few terms."""
    value = FORMS["arithmetic"][0]
    module = HalfInMemory(by_function=True, computes=True).run(kernel(value, "", "local"))
    first, second = module["main"].body.seq
    assert not of_half(first)
    assert of_half(second)
