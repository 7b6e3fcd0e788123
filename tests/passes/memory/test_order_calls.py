"""Calls in another order compute the same, and hold less: drawn steps, by an interpreter."""

from typing import Any

import numpy as np
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import relax, te, tirx
from tvm.relax import op

from odtc.passes.schedule.order_calls import OrderCalls
from tests.passes.memory.assigning import assign_kernel

NARROW, WIDE = 16, 4096
# Functions that kernels compute, by their names.
KERNELS = {
    "double": (NARROW, NARROW, lambda x: x * 2),
    "widen": (NARROW, WIDE, lambda x: np.resize(x, WIDE) + 1),
    "shift": (WIDE, WIDE, lambda x: x + 3),
    "narrow": (WIDE, NARROW, lambda x: x[:NARROW]),
}
W = np.arange(NARROW, dtype=np.float32)


def narrow_type() -> relax.Type:
    return relax.TensorType((NARROW,), "float32")


def kernel_of(taken: int, given_: int) -> tirx.PrimFunc:
    """A kernel of these sizes; what it computes is not run."""
    x = te.placeholder((taken,), name="x")
    y = te.compute((given_,), lambda i: x[i % taken])
    return te.create_prim_func([x, y]).without_attr("global_symbol")


@st.composite
def steps(draw: st.DrawFn) -> tvm.IRModule:
    """A step of drawn calls on earlier results, of which some are written to `w`."""
    builder = relax.BlockBuilder()
    w = relax.Var("w", narrow_type())
    kernels = {
        name: builder.add_func(kernel_of(taken, made), name)
        for name, (taken, made, _) in KERNELS.items()
    }
    assign = builder.add_func(assign_kernel((NARROW,)), "assign")
    with builder.function("main", [w]):
        values: dict[int, list[relax.Expr]] = {NARROW: [w], WIDE: []}
        for _ in range(draw(st.integers(1, 12))):
            name = draw(st.sampled_from([*KERNELS, "assign", "view"]))
            taken, made, _ = KERNELS.get(name, (NARROW, NARROW, None))
            if not values[taken]:
                continue
            value = draw(st.sampled_from(values[taken]))
            if name == "assign":
                arguments = relax.Tuple([w, value])
                done = op.call_tir_inplace(assign, arguments, [0], [narrow_type()])
            elif name == "view":
                done = op.reshape(value, (NARROW,))
            else:
                type_ = relax.TensorType((made,), "float32")
                done = relax.call_tir(kernels[name], relax.Tuple([value]), type_)
            values[made].append(builder.emit(done))
        results = [draw(st.sampled_from([*values[NARROW], *values[WIDE]])) for _ in range(2)]
        builder.emit_func_output(relax.Tuple(results))
    return builder.finalize()


def run(module: tvm.IRModule) -> list[Any]:
    """The results of the step, and `w` after it, of bindings one after the other."""
    function = module["main"]
    held = {function.params[0]: W.copy()}
    for block in function.body.blocks:
        for binding in block.bindings:
            call = binding.value
            if isinstance(call, relax.Var):
                held[binding.var] = held[call]
            elif call.op.name == "relax.call_tir":
                compute = KERNELS[call.args[0].name_hint][2]
                held[binding.var] = compute(held[call.args[1].fields[0]])
            elif call.op.name == "relax.call_tir_inplace":
                target, source = call.args[1].fields
                held[target][:] = held[source]
                held[binding.var] = held[target]
            else:
                held[binding.var] = held[call.args[0]][:]
    result = function.body.body
    fields = result.fields if isinstance(result, relax.Tuple) else [result]
    return [held[field].copy() for field in (*fields, function.params[0])]


@settings(max_examples=150, deadline=None)
@given(steps())
def test_the_same_results(module: tvm.IRModule) -> None:
    module = relax.transform.ToNonDataflow()(module)
    ordered = OrderCalls(1).run(module)
    for before, after in zip(run(module), run(ordered), strict=True):
        np.testing.assert_array_equal(before, after)


def test_what_is_wide_is_made_where_it_is_read() -> None:
    builder = relax.BlockBuilder()
    w = relax.Var("w", narrow_type())
    widen, narrow = (builder.add_func(kernel_of(*KERNELS[k][:2]), k) for k in ("widen", "narrow"))
    wide = relax.TensorType((WIDE,), "float32")
    with builder.function("main", [w]):
        wides = [builder.emit(relax.call_tir(widen, relax.Tuple([w]), wide)) for _ in range(3)]
        rows = [relax.call_tir(narrow, relax.Tuple([each]), narrow_type()) for each in wides]
        builder.emit_func_output(relax.Tuple([builder.emit(row) for row in rows]))
    module = OrderCalls(1).run(builder.finalize())
    names = [
        binding.value.args[0].name_hint
        for block in module["main"].body.blocks
        for binding in block.bindings
        if isinstance(binding.value, relax.Call)
    ]
    assert names == ["widen", "narrow"] * 3
