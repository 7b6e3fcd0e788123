"""Convolutions in groups and their gradients, over drawn shapes, against PyTorch in float64."""

import numpy as np
import pytest
import torch
import tvm
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tvm import relax

from odtc.backends.family.cpu import CPU_LOOPS
from odtc.backends.kernels.convolution.rules import convolution_rules
from odtc.backends.kernels.grouped.rules import grouped_rules
from odtc.backends.kernels.product.tile import machine_of
from odtc.backends.write_products import WriteProducts
from odtc.frontend.gradients.table import register_gradients
from tests.fast import examples, fast_if
from tests.host import loaded


@st.composite
def convolutions(draw) -> dict:
    """Groups of one channel, and of several."""
    small = st.integers(1, 3)
    width, groups = draw(st.sampled_from([1, 1, 2, 5])), draw(st.integers(2, 5))
    return {
        "shape": (draw(small), groups * width, draw(st.integers(3, 21)), draw(st.integers(3, 21))),
        "weight": (groups * draw(small), width, draw(st.integers(1, 5)), draw(small)),
        "groups": groups,
        "stride": (draw(small), draw(small)),
        "padding": (draw(st.integers(0, 3)), draw(st.integers(0, 3))),
        "dilation": (draw(small), draw(small)),
    }


def fits(case: dict) -> bool:
    """Whether the window fits into the padded image."""
    axes = zip(
        case["shape"][2:], case["weight"][2:], case["dilation"], case["padding"], strict=True
    )
    return all(size + 2 * pad > (taps - 1) * gap for size, taps, gap, pad in axes)


def adjoint(case: dict, stored: str) -> tvm.IRModule:
    """`(x, w, dy) -> (sum(conv * dy), (dx, dw))`, where the backward reads x as it is stored."""
    x, w = (
        relax.Var(name, relax.TensorType(case[key], "float32"))
        for name, key in (("x", "shape"), ("w", "weight"))
    )
    steps = {"strides": list(case["stride"]), "dilation": list(case["dilation"])}
    data = x if stored == "float32" else relax.op.astype(relax.op.astype(x, stored), "float32")
    builder = relax.BlockBuilder()
    result = builder.normalize(
        relax.op.nn.conv2d(x, w, padding=[*case["padding"] * 2], groups=case["groups"], **steps)
    )
    dy = relax.Var("dy", result.ty)
    with builder.function("main", [x, w, dy]):
        with builder.dataflow():
            y = builder.emit(relax.Call(result.op, [builder.emit(data), w], result.attrs))
            loss = builder.emit_output(relax.op.sum(relax.op.multiply(y, dy)))
        builder.emit_func_output(loss)
    register_gradients()
    return relax.transform.Gradient("main", require_grads=[x, w])(builder.finalize())


def expected(case: dict, arrays: list[np.ndarray]) -> list[np.ndarray]:
    x, w, dy = (torch.tensor(a, dtype=torch.float64, requires_grad=True) for a in arrays)
    steps = {key: case[key] for key in ("stride", "padding", "dilation", "groups")}
    loss = (torch.nn.functional.conv2d(x, w, None, **steps) * dy).sum()
    loss.backward()
    assert x.grad is not None
    assert w.grad is not None
    return [each.detach().numpy() for each in (loss, x.grad, w.grad)]


@pytest.mark.parametrize("stored", fast_if("float32".__eq__, ["float32", "float16"]))
@settings(max_examples=examples(12), deadline=None)
@given(case=convolutions(), bits=st.sampled_from([128, 512]))
def test_against_pytorch(stored: str, case: dict, bits: int) -> None:
    assume(fits(case))
    module = adjoint(case, stored)
    rng = np.random.default_rng(0)
    arrays = [
        # Halves can hold quarters exactly.
        (rng.integers(-8, 8, [int(d) for d in param.ty.shape]) / 4).astype(np.float32)
        for param in module["main_adjoint"].params
    ]
    machine = machine_of(bits)
    rules = grouped_rules(convolution_rules(), machine)
    module = relax.transform.LegalizeOps(rules, skip_ops=["relax.astype"])(module)
    module = WriteProducts(machine, CPU_LOOPS).run(module)
    module = relax.transform.LegalizeOps()(module)
    vm = relax.VirtualMachine(loaded(module), tvm.cpu())
    loss, gradients = vm["main_adjoint"](*map(tvm.runtime.tensor, arrays))
    found = [each.numpy() for each in (loss, *gradients)]
    for value, exact in zip(found, expected(case, arrays), strict=True):
        np.testing.assert_allclose(value, exact, rtol=1e-5, atol=1e-4)
