"""Gradients of a convolution's data whose windows read mostly padding, against PyTorch."""

import numpy as np
import pytest
import torch
from tvm import relax

from odtc.backends.caches import Caches
from odtc.backends.family.cpu import CPU_LOOPS
from odtc.backends.kernels.convolution.grid import ConvolutionAxis
from odtc.backends.kernels.convolution.rules import convolution_rules
from odtc.backends.kernels.convolution.scattered_gradient import is_mostly_padding
from odtc.backends.kernels.convolution.shifted_cut import Shape
from odtc.backends.kernels.product.tile import Machine, machine_of
from odtc.backends.write_products import WriteProducts
from tests.backends.products.guarded import run_guarded

PHONE = machine_of(128, caches=Caches(1 << 16, 1 << 19))
# Batch, channels of the image and of `dy`; then size, kernel, dilation and padding by axis.
CASES = {
    "lenet": ((4, 6, 16), (14, 5, 1, 0), (14, 5, 1, 0)),
    # Rows of vectors of four, two and one element; taps that no tile divides.
    "odd": ((3, 5, 9), (9, 3, 1, 0), (17, 7, 1, 0)),
    "apart": ((2, 3, 8), (12, 4, 2, 0), (15, 4, 2, 0)),
    "padded": ((1, 2, 13), (11, 6, 1, 1), (12, 6, 1, 1)),
    "one row": ((2, 3, 8), (4, 4, 1, 0), (12, 5, 1, 0)),
    "of rank 3": ((2, 3, 8), (6, 3, 1, 0), (6, 3, 1, 0), (12, 3, 1, 0)),
}


def axes_of(sizes: tuple[tuple[int, ...], ...]) -> list[ConvolutionAxis]:
    return [
        ConvolutionAxis(size, kernel, 1, gap, pad, size + 2 * pad - (kernel - 1) * gap)
        for size, kernel, gap, pad in sizes
    ]


@pytest.mark.parametrize("name", CASES)
def test_against_pytorch(name: str) -> None:
    (batch, channels, filters), *sizes = CASES[name]
    axes = axes_of(tuple(sizes))
    assert is_mostly_padding(axes, Shape(batch, filters, channels), PHONE)
    rng = np.random.default_rng(0)
    dy = rng.standard_normal((batch, filters, *(a.out for a in axes)), np.float32)
    w = rng.standard_normal((filters, channels, *(a.kernel for a in axes)), np.float32)
    found = gradient(axes, dy, w, PHONE)
    transposed = getattr(torch.nn.functional, f"conv_transpose{len(axes)}d")
    wanted = transposed(
        torch.from_numpy(dy).double(),
        torch.from_numpy(w).double(),
        padding=[a.pad for a in axes],
        dilation=[a.dilation for a in axes],
    )
    np.testing.assert_allclose(found, wanted.numpy(), rtol=1e-4, atol=1e-4)


def gradient(
    axes: list[ConvolutionAxis], dy: np.ndarray, w: np.ndarray, machine: Machine
) -> np.ndarray:
    given = [
        relax.Var(name, relax.TensorType(array.shape, "float32"))
        for name, array in (("dy", dy), ("w", w))
    ]
    operator = getattr(relax.op.nn, f"conv{len(axes)}d_transpose")
    pads, gaps = [a.pad for a in axes] * 2, [a.dilation for a in axes]
    builder = relax.BlockBuilder()
    with builder.function("main", given):
        with builder.dataflow():
            result = builder.emit_output(operator(*given, padding=pads, dilation=gaps))
        builder.emit_func_output(result)
    module = relax.transform.LegalizeOps(convolution_rules())(builder.finalize())
    module = WriteProducts(machine, CPU_LOOPS).run(module)
    (kernel,) = (f for v, f in module.functions_items() if v.name_hint != "main")
    return run_guarded(kernel, [dy, w])[0]


def test_where_windows_read_mostly_padding() -> None:
    """Only where that is much, rows fill vectors, and the core's caches are known."""
    lenet, wide, same = ((14, 5, 1, 0),) * 2, ((64, 5, 1, 0),) * 2, ((14, 5, 1, 2),) * 2
    narrow = ((14, 5, 1, 0), (11, 5, 1, 0))
    shape = Shape(4, 16, 6)
    taken = [is_mostly_padding(axes_of(s), shape, PHONE) for s in (lenet, wide, same, narrow)]
    assert taken == [True, False, False, False]
    assert not is_mostly_padding(axes_of(lenet), shape, machine_of(128))
    assert not is_mostly_padding(axes_of(lenet), Shape(4, 4, 6), PHONE)
