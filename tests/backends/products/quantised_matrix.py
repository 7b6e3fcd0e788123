"""Matrices of few bits, and products that read them as their right operand."""

from dataclasses import dataclass

import numpy as np
from tvm import relax

from odtc.backends.kernels.product.fused import FusedProduct, fused_product
from odtc.backends.kernels.product.matmul import matmul
from odtc.core.coded import packed
from odtc.dialect.elements.dequantised import BFLOAT16, NIBBLES, dequantised


@dataclass(frozen=True)
class Matrix:
    """A matrix of few bits.

    Attributes:
        codes: as they are stored.
        zero, scale: of blocks.
        values: what they stand for.
        call: of `dequantised`.
    """

    codes: np.ndarray
    zero: np.ndarray
    scale: np.ndarray
    values: np.ndarray
    call: relax.Call


def spread(numbers: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """Numbers of blocks for each element."""
    for axis, size in enumerate(shape):
        numbers = np.repeat(numbers, -(-size // numbers.shape[axis]), axis)
    return numbers


def drawn(stored: str, dtype: str, shape: tuple[int, int], blocks: tuple[int, int]) -> Matrix:
    """A matrix with a scale and a zero point for each block."""
    rng = np.random.default_rng(0)
    sizes = [size // block for size, block in zip(shape, blocks, strict=True)]
    zero, scale = rng.integers(0, 5, sizes).astype(np.uint8), rng.random(sizes, np.float32)
    if stored == BFLOAT16:
        codes = (rng.standard_normal(shape).astype(np.float32).view(np.uint32) >> 16).astype("u2")
        numbers = (codes.astype(np.uint32) << 16).view(np.float32)
    else:
        low, high = {NIBBLES: (0, 16)}.get(stored, (np.iinfo(dtype).min, np.iinfo(dtype).max + 1))
        numbers = codes = rng.integers(low, high, shape).astype(dtype)
    if stored == NIBBLES:
        codes = packed(codes)
        assert codes is not None
        assert codes.shape == (shape[0], -(-shape[1] // 2))
    tensors = [
        relax.Var(name, relax.TensorType(each.shape, str(each.dtype)))
        for name, each in (("codes", codes), ("zero", zero), ("scale", scale))
    ]
    call = dequantised(*tensors, stored=stored, shape=list(shape), blocks=list(blocks))
    whole = (numbers.astype(np.float64) - spread(zero, shape)) * spread(scale, shape)
    return Matrix(codes, zero, scale, whole, relax.BlockBuilder().normalize(call))


def product_with(matrix: Matrix, a: np.ndarray, is_transposed: bool) -> FusedProduct:
    left = relax.Var("a", relax.TensorType(a.shape, "float32"))
    found = fused_product(matmul(left, matrix.call, False, is_transposed))
    assert found
    return found
