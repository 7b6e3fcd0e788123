"""Products that multiply float16, over drawn shapes, against PyTorch in float64.

The loops are those for an ARM core; here the host runs them, and rounds after every operation. What
the core's own instructions give is tested in `tests/device/test_mixed_precision.py`.
"""

import numpy as np
import pytest
import tvm
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from tvm import relax

from odtc.backends.built import half_products
from odtc.backends.family.cpu import CPU_LOOPS
from odtc.backends.kernels.convolution.rules import convolution_rules
from odtc.backends.kernels.grouped.rules import grouped_rules
from odtc.backends.kernels.product import half_runs, tile
from odtc.backends.kernels.product.fused import fused_product
from odtc.backends.kernels.product.matmul import matmul
from odtc.backends.kernels.product.tile import Machine, machine_of
from odtc.backends.write_products import write_product
from tests.backends.kernels.half_bounds import assert_as_exact_as_half, convolution_references
from tests.backends.kernels.test_convolution_kernels import SAME, adjoint_module, convolutions, run
from tests.backends.products.guarded import run_guarded
from tests.backends.products.test_grouped_convolutions import adjoint
from tests.fast import examples
from tests.host import loaded

NEON = machine_of(128, has_half=True)


@pytest.fixture(autouse=True, scope="module")
def small_products_too():
    """Drawn products are small: all of them multiply float16 here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tile, "_LEAST_DEPTH", 1)
        patch.setattr(tile, "_LEAST_REUSE", 1)
        yield


@settings(max_examples=examples(8), deadline=None)
@given(case=convolutions())
# Sums that are cut into runs by channels, the last run shorter; several parts of channels.
@example(SAME | {"channels": 32})
# By rows of a window whose taps are more than a run, by positions of a row, and with a stride.
@example(SAME | {"channels": 2, "kernel": (9, 9), "pad": (4, 4, 4, 4)})
@example(SAME | {"image": (3, 150), "batch": 1})
@example(SAME | {"channels": 30, "image": (12, 12), "stride": (2, 2)})
# Points, which float32 would read where they lie.
@example(SAME | {"channels": 150, "image": (8, 32), "kernel": (1, 1), "pad": (0, 0, 0, 0)})
# Points of few channels, whose gradient copies the image in panels.
@example(SAME | {"channels": 8, "image": (12, 12), "kernel": (1, 1), "pad": (0, 0, 0, 0)})
def test_convolutions(case: dict) -> None:
    pads = [case["pad"][axis] + case["pad"][axis + 2] for axis in range(2)]
    sizes = zip(case["image"], case["kernel"], case["dilation"], pads, strict=True)
    assume(all(n + pad > (k - 1) * gap for n, k, gap, pad in sizes))
    # TVM's own kernel, which multiplies float32.
    assume(not any(s > 1 and d > 1 for s, d in zip(case["stride"], case["dilation"], strict=True)))
    module = adjoint_module(case)
    rng = np.random.default_rng(0)
    arrays = [
        rng.standard_normal([int(d) for d in p.ty.shape]).astype(np.float32)
        for p in module["main_adjoint"].params
    ]
    for value, reference in zip(
        run(module, NEON, arrays), convolution_references(case, *arrays), strict=True
    ):
        assert_as_exact_as_half(value, *reference)


@pytest.mark.parametrize("stored", ["float32", "float16"])
@pytest.mark.parametrize("stride", [1, 2])
def test_convolutions_in_groups(stride: int, stored: str) -> None:
    case = {
        "shape": (2, 15, 9, 14),
        "weight": (6, 5, 3, 2),
        "groups": 3,
        "stride": (stride, stride),
        "padding": (1, 1),
        "dilation": (3 - stride, 3 - stride),
    }
    module = adjoint(case, stored)
    rng = np.random.default_rng(0)
    arrays = [
        rng.standard_normal([int(d) for d in p.ty.shape]).astype(stored).astype(np.float32)
        for p in module["main_adjoint"].params
    ]
    rules = grouped_rules(convolution_rules(), NEON)
    lowered = relax.transform.LegalizeOps(rules)(module)
    assert half_products(lowered) == 3
    vm = relax.VirtualMachine(loaded(lowered), tvm.cpu())
    _, (dx, dw) = vm["main_adjoint"](*map(tvm.runtime.tensor, arrays))
    steps = {key: case[key] for key in ("stride", "padding", "dilation", "groups")}
    _, *references = convolution_references(steps, *arrays)
    for value, reference in zip((dx, dw), references, strict=True):
        assert_as_exact_as_half(value.numpy(), *reference)


@settings(max_examples=examples(8), deadline=None)
@given(
    sizes=st.tuples(*[st.integers(1, 70)] * 3),
    transposed=st.tuples(st.booleans(), st.booleans()),
    batch=st.sampled_from([(), (3,), (2, 3)]),
    stored=st.sampled_from(["float32", "float16"]),
)
# Several panels in a group, and the last group shorter; panels that do not fit a cache.
@example(sizes=(33, 65, 520), transposed=(False, False), batch=(), stored="float32")
@example(sizes=(33, 3000, 70), transposed=(True, False), batch=(), stored="float32")
@example(sizes=(100, 64, 70), transposed=(False, True), batch=(3,), stored="float16")
@example(sizes=(100, 33, 10), transposed=(True, True), batch=(), stored="float32")
def test_matrix_products(sizes, transposed, batch, stored: str) -> None:
    rows, depth, columns = sizes
    shapes = [(rows, depth), (depth, columns)]
    laid = [(*batch, *(s[::-1] if t else s)) for s, t in zip(shapes, transposed, strict=True)]
    left, right = (
        relax.Var(n, relax.TensorType(s, stored)) for n, s in zip("ab", laid, strict=True)
    )
    kernel = written(matmul(left, right, *transposed), NEON)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape).astype(stored) for shape in laid]
    (found,) = run_guarded(kernel, arrays)
    a, b = (
        (x.swapaxes(-1, -2) if t else x).astype(np.float64)
        for x, t in zip(arrays, transposed, strict=True)
    )
    assert_as_exact_as_half(found, a @ b, a**2 @ b**2)


def written(kernel: tvm.tirx.PrimFunc, machine: Machine) -> tvm.tirx.PrimFunc:
    product = fused_product(kernel)
    assert product
    result = write_product(product, machine, CPU_LOOPS)
    assert half_products(tvm.IRModule({"main": result})) == 1
    return result


def test_a_long_sum_does_not_lose_its_digits() -> None:
    """Ones: float16 counts to 2048 and no further."""
    depth = 5000
    left, right = (relax.Var("a", relax.TensorType((32, depth), "float32")) for _ in range(2))
    kernel = written(matmul(left, right, False, True), NEON)
    ones = np.ones((32, depth), np.float32)
    (found,) = run_guarded(kernel, [ones, ones])
    np.testing.assert_array_equal(found, depth)


def test_what_exceeds_float16_is_infinite() -> None:
    shapes = {"a": (32, 40), "b": (40, 32)}
    left, right = (relax.Var(n, relax.TensorType(s, "float32")) for n, s in shapes.items())
    kernel = written(matmul(left, right, False, False), NEON)
    a, b = (np.ones(shape, np.float32) for shape in shapes.values())
    a[3] = 7e4  # as an operand
    a[5] = 6e4  # as a sum
    (found,) = run_guarded(kernel, [a, b])
    infinite = np.isinf(found).all(axis=1)
    assert infinite[[3, 5]].all()
    np.testing.assert_array_equal(found[~infinite], 40.0)
    assert len(found[~infinite]) == 30


@pytest.mark.parametrize(
    ("extents", "expected"),
    [
        ([100], (0, 50)),
        ([64], (0, 64)),
        ([48, 3, 3], (0, 7)),
        ([8, 11, 11], (1, 4)),
        ([2, 300], (1, 60)),
        ([1, 1, 40], (0, 1)),
    ],
)
def test_runs_are_even_and_short(extents: list[int], expected: tuple[int, int]) -> None:
    axis, size = half_runs.cut(extents)
    assert (axis, size) == expected
    assert size * int(np.prod(extents[axis + 1 :])) <= half_runs.RUN


def test_small_products_stay_in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tile, "_LEAST_DEPTH", 16)
    monkeypatch.setattr(tile, "_LEAST_REUSE", 32)
    assert NEON.dtype(16, 32, 32) == NEON.dtype(16) == "float16"
    assert NEON.dtype(15, 32, 32) == NEON.dtype(16, 31, 32) == "float32"
    assert machine_of(128).dtype(4096, 4096) == "float32"
