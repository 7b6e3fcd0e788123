"""Convolutions and their gradients over drawn shapes, against PyTorch."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import tvm
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from tvm import relax

from odtc.backends.caches import Caches
from odtc.backends.family.cpu import CPU_LOOPS
from odtc.backends.kernels.convolution.rules import convolution_rules
from odtc.backends.kernels.product import packed as packed_product
from odtc.backends.kernels.product.tile import Machine, machine_of
from odtc.backends.write_products import WriteProducts
from odtc.frontend.gradients.table import register_gradients
from tests.backends.products.guarded import run_guarded
from tests.fast import examples

MACHINES = [machine_of(bits) for bits in (128, 256, 512)]
# A cache so small that images are staged in bands.
MACHINES.append(replace(machine_of(128), cache_bytes=1 << 9))
# One whose first-level cache is known, too, and which loads half a vector in a cycle.
MACHINES.append(machine_of(128, caches=Caches(1 << 11, 1 << 14, loaded=8)))


# Three channels of an image to nineteen, each axis padded before and after as much as the kernel
# reaches over.
SAME: dict = {
    "batch": 2,
    "channels": 3,
    "filters": 19,
    "image": (11, 9),
    "kernel": (3, 3),
    "stride": (1, 1),
    "pad": (1, 1, 1, 1),
    "dilation": (1, 1),
}

POINTS = SAME | {"channels": 33, "filters": 20, "kernel": (1, 1), "pad": (0, 0, 0, 0)}


@st.composite
def convolutions(draw) -> dict:
    """Padding is that of rows and columns before, then after."""
    size = st.integers(1, 3)
    return {
        "batch": draw(size),
        "channels": draw(st.integers(1, 9)),
        "filters": draw(st.integers(1, 19)),
        "image": (draw(st.integers(3, 11)), draw(st.integers(3, 11))),
        "kernel": (draw(size), draw(size)),
        "stride": (draw(size), draw(size)),
        "pad": tuple(draw(st.integers(0, 2)) for _ in range(4)),
        "dilation": (draw(size), draw(size)),
    }


@st.composite
def points(draw) -> dict:
    """Convolutions of one tap, of so many channels that both operands are packed."""
    return {
        "batch": draw(st.integers(1, 4)),
        "channels": draw(st.integers(16, 70)),
        "filters": draw(st.integers(16, 70)),
        "image": (draw(st.integers(4, 13)), draw(st.integers(4, 13))),
        "kernel": (1, 1),
        "stride": (draw(st.integers(1, 3)), draw(st.integers(1, 3))),
        "pad": (0, 0, 0, 0),
        "dilation": (1, 1),
    }


def adjoint_module(case: dict) -> tvm.IRModule:
    """`(x, w, dy) -> (sum(conv * dy), (dx, dw))`."""
    x_shape = (case["batch"], case["channels"], *case["image"])
    w_shape = (case["filters"], case["channels"], *case["kernel"])
    x, w = (
        relax.Var(n, relax.TensorType(s, "float32")) for n, s in (("x", x_shape), ("w", w_shape))
    )
    probe = relax.BlockBuilder()
    steps = {"strides": list(case["stride"]), "dilation": list(case["dilation"])}
    conv = relax.op.nn.conv2d(x, w, padding=list(case["pad"]), **steps)
    dy = relax.Var("dy", probe.normalize(conv).ty)
    builder = relax.BlockBuilder()
    with builder.function("main", [x, w, dy]):
        with builder.dataflow():
            y = builder.emit(conv)
            loss = builder.emit_output(relax.op.sum(relax.op.multiply(y, dy)))
        builder.emit_func_output(loss)
    register_gradients()
    return relax.transform.Gradient("main", require_grads=[x, w])(builder.finalize())


def run(module: tvm.IRModule, machine: Machine, arrays: list[np.ndarray]) -> list[np.ndarray]:
    """The convolution and its two gradients, each by its kernel."""
    module = relax.transform.LegalizeOps(convolution_rules())(module)
    module = WriteProducts(machine, CPU_LOOPS).run(module)
    x, w, dy = arrays
    inputs = {
        "convolution": [x, w],
        # Where stride and dilation are both more than 1, it is TVM's kernel.
        ("data_gradient", "conv2d_transpose"): [dy, w],
        "weight_gradient": [x, dy],
    }
    kernels = {variable.name_hint: function for variable, function in module.functions_items()}
    return [
        run_guarded(kernel, tensors)[0]
        for names, tensors in inputs.items()
        for name, kernel in kernels.items()
        if name.startswith(names)
    ]


@pytest.mark.parametrize("machine", MACHINES, ids=["neon", "avx2", "avx-512", "tiny", "caches"])
@settings(max_examples=examples(10), deadline=None, suppress_health_check=list(HealthCheck))
@given(case=convolutions())
# The last of several bands of rows reaches back, and channels are enough for the sums of the
# weights' gradient to be cut into parts.
@example(SAME | {"channels": 32})
# With AVX2 the tiles of the weights' gradient leave one channel.
@example(SAME | {"channels": 25})
# Weights whose rows fall into the same lines of a cache.
@example(SAME | {"channels": 1024, "image": (4, 5), "kernel": (1, 1), "pad": (0, 0, 0, 0)})
# Points, whose weights' gradient copies the image in panels: of channels that fill vectors.
@example(SAME | {"channels": 16, "kernel": (1, 1), "pad": (0, 0, 0, 0)})
# Each output is of one element in its place, but there are more of them.
@example(SAME | {"kernel": (1, 1), "pad": (0, 0, 1, 2)})
# Padding on one side only, so that no row can share it with the next one.
@example(SAME | {"pad": (2, 2, 0, 0)})
@example(SAME | {"image": (4, 4), "kernel": (5, 5), "stride": (2, 2), "pad": (0, 0, 1, 1)})
def test_against_pytorch(machine: Machine, case: dict) -> None:
    pads = [case["pad"][axis] + case["pad"][axis + 2] for axis in range(2)]
    sizes = zip(case["image"], case["kernel"], case["dilation"], pads, strict=True)
    assume(all(n + pad > (k - 1) * gap for n, k, gap, pad in sizes))
    assert_as_pytorch(machine, case)


@pytest.mark.parametrize("machine", MACHINES, ids=["neon", "avx2", "avx-512", "tiny", "caches"])
@settings(max_examples=examples(6), deadline=None, suppress_health_check=list(HealthCheck))
@given(case=points())
# Vectors of columns that belong to two images; a panel wider than all columns.
@example(POINTS | {"batch": 4, "image": (7, 7)})
@example(POINTS | {"batch": 1, "image": (4, 4)})
# Weights whose rows fall into the same lines of a cache.
@example(POINTS | {"channels": 1024, "filters": 17})
# Strides, of which one leaves a row of the image that no output is of.
@example(POINTS | {"image": (6, 9), "stride": (2, 3)})
def test_points_against_pytorch(machine: Machine, case: dict) -> None:
    assert_as_pytorch(machine, case)


@pytest.mark.parametrize("machine", MACHINES, ids=["neon", "avx2", "avx-512", "tiny", "caches"])
def test_a_large_weight_is_copied_by_tile(machine: Machine, monkeypatch) -> None:
    monkeypatch.setattr(packed_product, "_MOST_COPIED", 0)
    assert_as_pytorch(machine, POINTS)


def assert_as_pytorch(machine: Machine, case: dict) -> None:
    module = adjoint_module(case)
    rng = np.random.default_rng(0)
    arrays = [
        rng.standard_normal([int(d) for d in param.ty.shape]).astype(np.float32)
        for param in module["main_adjoint"].params
    ]
    x, w, dy = (torch.tensor(array, requires_grad=index < 2) for index, array in enumerate(arrays))
    steps = {"stride": case["stride"], "dilation": case["dilation"]}
    top, left, bottom, right = case["pad"]
    padded = torch.nn.functional.pad(x, (left, right, top, bottom))
    y = torch.nn.functional.conv2d(padded, w, **steps)
    y.backward(dy)
    for value, expected in zip(run(module, machine, arrays), (y, x.grad, w.grad), strict=True):
        np.testing.assert_allclose(value, expected.detach().numpy(), rtol=1e-4, atol=1e-3)


@settings(deadline=None)
@given(rows=st.integers(1, 3000), columns=st.integers(1, 5000))
@pytest.mark.parametrize("machine", MACHINES, ids=["neon", "avx2", "avx-512", "tiny", "caches"])
def test_a_tile_fits_the_registers(machine: Machine, rows: int, columns: int) -> None:
    tile = machine.tile(rows, columns)
    assert tile.rows * tile.vectors <= machine.accumulators
    assert tile.rows <= rows
    assert tile.vectors == 1 or (tile.vectors - 1) * machine.lanes < columns
