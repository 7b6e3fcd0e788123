"""Products of few rows with a matrix whose rows are the terms of sums, over drawn shapes."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tvm import relax

from odtc.backends.family.cpu import CPU_LOOPS
from odtc.backends.kernels.product.fused import fused_product
from odtc.backends.kernels.product.matmul import matmul
from odtc.backends.kernels.product.panel import ProductSizes
from odtc.backends.kernels.product.row import is_of_rows
from odtc.backends.kernels.product.tile import machine_of
from odtc.backends.write_products import write_product
from tests.backends.products.guarded import run_guarded
from tests.fast import examples


@settings(max_examples=examples(16), deadline=None)
@given(
    sizes=st.tuples(st.integers(1, 6), st.integers(60, 400), st.integers(1, 40)),
    batch=st.sampled_from([(), (3,), (2, 2)]),
    bits=st.sampled_from([128, 256, 512]),
    stored=st.sampled_from(["float32", "float16"]),
)
# The tasks overlap; the sum has whole blocks of vectors, single ones, and a part of one.
@example(sizes=(1, 400, 13), batch=(), bits=512, stored="float32")
@example(sizes=(1, 84, 1), batch=(), bits=512, stored="float32")
def test_values(sizes, batch, bits: int, stored: str) -> None:
    rows, depth, columns = sizes
    shapes = [(*batch, rows, depth), (*batch, columns, depth)]
    left, right = (
        relax.Var(n, relax.TensorType(s, stored)) for n, s in zip("ab", shapes, strict=True)
    )
    product = fused_product(matmul(left, right, False, True))
    assert product
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(stored) for shape in shapes)
    (found,) = run_guarded(write_product(product, machine_of(bits), CPU_LOOPS), [a, b])
    expected = a.astype(np.float64) @ b.astype(np.float64).swapaxes(-1, -2)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("bits", "most"),
    # Rows by the width of a vector: of four lanes, few are empty before sums run along them.
    [(128, 3), (256, 3), (512, 6)],
)
def test_few_rows_are_summed_along_vectors(bits: int, most: int) -> None:
    machine = machine_of(bits)
    taken = [rows for rows in range(1, 20) if is_of_rows(ProductSizes(1, rows, 400, 120), machine)]
    assert taken == list(range(1, most + 1))
    assert not is_of_rows(ProductSizes(1, 1, 8, 120), machine)
    half = machine_of(bits, has_half=True)
    assert is_of_rows(ProductSizes(1, 1, 400, 120), half)
