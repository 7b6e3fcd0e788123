"""Convolutions and their gradients over drawn shapes, against PyTorch."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import tvm
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tvm import relax

from odtc.backends.kernels.convolution import convolution_rules
from odtc.backends.kernels.tile import Machine, machine_of
from odtc.backends.write_products import WriteProducts
from odtc.frontend.gradients.table import register_gradients

HOST = tvm.target.Target({"kind": "llvm"})
MACHINES = [machine_of(bits) for bits in (128, 256, 512)]
# A cache so small that images are staged in bands.
MACHINES.append(replace(machine_of(128), cache_bytes=1 << 9))


@st.composite
def convolutions(draw) -> dict:
    size = st.integers(1, 3)
    case = {
        "batch": draw(size),
        "channels": draw(st.integers(1, 9)),
        "filters": draw(st.integers(1, 19)),
        "image": (draw(st.integers(3, 11)), draw(st.integers(3, 11))),
        "kernel": (draw(size), draw(size)),
        "stride": (draw(size), draw(size)),
        "pad": (draw(st.integers(0, 2)), draw(st.integers(0, 2))),
        "dilation": (draw(size), draw(size)),
    }
    return case


def adjoint_module(case: dict) -> tvm.IRModule:
    """`(x, w, dy) -> (sum(conv * dy), (dx, dw))`."""
    x_shape = (case["batch"], case["channels"], *case["image"])
    w_shape = (case["filters"], case["channels"], *case["kernel"])
    x, w = (
        relax.Var(n, relax.TensorType(s, "float32")) for n, s in (("x", x_shape), ("w", w_shape))
    )
    probe = relax.BlockBuilder()
    padding = [*case["pad"], *case["pad"]]
    steps = {"strides": list(case["stride"]), "dilation": list(case["dilation"])}
    conv = relax.op.nn.conv2d(x, w, padding=padding, **steps)
    dy = relax.Var("dy", probe.normalize(conv).ty)
    builder = relax.BlockBuilder()
    with builder.function("main", [x, w, dy]):
        with builder.dataflow():
            y = builder.emit(conv)
            loss = builder.emit_output(relax.op.sum(relax.op.multiply(y, dy)))
        builder.emit_func_output(loss)
    register_gradients()
    return relax.transform.Gradient("main", require_grads=[x, w])(builder.finalize())


def gradients(module: tvm.IRModule, machine: Machine, arrays: list[np.ndarray]) -> list[np.ndarray]:
    module = relax.transform.LegalizeOps(convolution_rules())(module)
    module = WriteProducts(machine).run(module)
    vm = relax.VirtualMachine(tvm.compile(module, HOST), tvm.cpu())
    loss, grads = vm["main_adjoint"](*(tvm.runtime.tensor(array) for array in arrays))
    return [loss.numpy(), *(grad.numpy() for grad in grads)]


@pytest.mark.parametrize("machine", MACHINES, ids=["neon", "avx2", "avx-512", "tiny"])
@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(case=convolutions())
def test_against_pytorch(machine: Machine, case: dict) -> None:
    sizes = zip(case["image"], case["kernel"], case["dilation"], case["pad"], strict=True)
    assume(all(n + 2 * pad > (k - 1) * gap for n, k, gap, pad in sizes))
    module = adjoint_module(case)
    rng = np.random.default_rng(0)
    arrays = [
        rng.standard_normal([int(d) for d in param.ty.shape]).astype(np.float32)
        for param in module["main_adjoint"].params
    ]
    x, w, dy = (torch.tensor(array, requires_grad=index < 2) for index, array in enumerate(arrays))
    steps = {"stride": case["stride"], "dilation": case["dilation"]}
    y = torch.nn.functional.conv2d(x, w, padding=case["pad"], **steps)
    loss = (y * dy).sum()
    loss.backward()
    found = gradients(module, machine, arrays)
    # The loss is a long sum whose terms may cancel: its rounding grows with their sizes.
    rounding = 1e-5 * float((y * dy).detach().abs().sum())
    np.testing.assert_allclose(found[0], loss.detach().numpy(), rtol=1e-4, atol=rounding)
    for value, expected in zip(found[1:], (x.grad, w.grad), strict=True):
        np.testing.assert_allclose(value, expected.numpy(), rtol=1e-4, atol=1e-3)


@settings(deadline=None)
@given(rows=st.integers(1, 3000), columns=st.integers(1, 5000))
@pytest.mark.parametrize("machine", MACHINES, ids=["neon", "avx2", "avx-512", "tiny"])
def test_a_tile_fits_the_registers(machine: Machine, rows: int, columns: int) -> None:
    tile = machine.tile(rows, columns)
    assert tile.rows * tile.vectors <= machine.accumulators
    assert tile.rows <= rows
    assert tile.vectors == 1 or (tile.vectors - 1) * machine.lanes < columns
