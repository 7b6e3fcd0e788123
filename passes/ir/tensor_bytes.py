"""Bytes of tensors whose shapes are numbers."""

import math
from collections.abc import Iterable

import numpy as np
from tvm import ir, relax, tirx


def tensor_bytes(shape: Iterable[ir.Expr], dtype: str) -> int:
    """Bytes of a tensor."""
    return math.prod(int(size) for size in shape) * np.dtype(dtype).itemsize


def buffer_bytes(buffer: tirx.Buffer) -> int:
    """Bytes of a kernel's buffer."""
    return tensor_bytes(buffer.shape, str(buffer.dtype))


def variable_bytes(variable: relax.Var) -> int:
    """Bytes of the tensor that a variable of a step stands for."""
    return tensor_bytes(variable.ty.shape, str(variable.ty.dtype))
