"""Products with a right operand that is dequantised as it is packed, over drawn shapes."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from odtc.backends.cost.workload import workload_of
from odtc.backends.family.cpu import CPU_LOOPS
from odtc.backends.kernels.product.tile import machine_of
from odtc.backends.write_products import write_product
from odtc.core.coded import packed
from odtc.dialect.elements.dequantised import AS_IT_IS, BFLOAT16, NIBBLES
from tests.backends.products.guarded import run_guarded
from tests.backends.products.quantised_matrix import drawn, product_with
from tests.fast import examples

SHAPES = ((64, 96), (61, 35), (48, 78), (3, 160), (130, 16))


@settings(max_examples=examples(24), deadline=None)
@given(
    form=st.sampled_from(
        [(AS_IT_IS, "int8"), (AS_IT_IS, "uint8"), (NIBBLES, "uint8"), (BFLOAT16, "uint16")]
    ),
    rows=st.integers(1, 70),
    shape=st.sampled_from(SHAPES),
    blocks=st.tuples(st.integers(0, 3), st.integers(0, 3)),
    is_transposed=st.booleans(),
    bits=st.sampled_from([128, 256, 512]),
)
# Blocks of 32, of which vectors are parts; more terms than stay near a core.
@example((NIBBLES, "uint8"), 33, (64, 96), (0, 2), True, 512)
@example((NIBBLES, "uint8"), 33, (64, 96), (0, 2), False, 512)
@example((NIBBLES, "uint8"), 40, (48, 8000), (0, 2), True, 512)
@example((AS_IT_IS, "int8"), 1, (48, 6020), (0, 0), True, 256)
@example((NIBBLES, "uint8"), 20, (61, 35), (0, 3), True, 128)
def test_values(
    form: tuple[str, str],
    rows: int,
    shape: tuple[int, int],
    blocks: tuple[int, int],
    is_transposed: bool,
    bits: int,
) -> None:
    choices = [[1, *(d for d in (5, 32) if size % d == 0), size] for size in shape]
    first, second = (
        each[min(which, len(each) - 1)] for each, which in zip(choices, blocks, strict=True)
    )
    matrix = drawn(*form, shape, (first, second))
    a = np.random.default_rng(1).standard_normal(
        (rows, shape[1] if is_transposed else shape[0]), np.float32
    )
    kernel = write_product(product_with(matrix, a, is_transposed), machine_of(bits), CPU_LOOPS)
    (found,) = run_guarded(kernel, [a, matrix.codes, matrix.zero, matrix.scale])
    expected = a @ (matrix.values.T if is_transposed else matrix.values)
    np.testing.assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("shift", [0, 1])
def test_two_elements_are_a_byte_where_each_needs_four_bits(shift: int) -> None:
    signed = np.array([[-8, 7, 0]], np.int8) - np.int8(shift)
    unsigned = np.array([[15, 1]], np.uint8) + np.uint8(shift)
    found = [each if each is None else each.tolist() for each in map(packed, (signed, unsigned))]
    assert found == ([None, None] if shift else [[[0xF0, 0x08]], [[0x1F]]])


def test_a_workload_tells_how_an_operand_is_stored() -> None:
    a = np.zeros((20, 96), np.float32)
    machine = machine_of(256)
    texts = {
        workload_of(product_with(drawn(*form, (64, 96), blocks), a, True), machine)
        for form in ((AS_IT_IS, "uint8"), (NIBBLES, "uint8"))
        for blocks in ((1, 32), (1, 96))
    }
    assert len(texts) == 4
    assert any("; coded nibbles 64x96 by 1x32" in text for text in texts)
