"""Weights that an artifact keeps as codes: integers with scales and zero points, or bfloat16.

Each element is `(code - zero) * scale` in float32, where a block of elements has one scale and one
zero point. In the step these are arguments of their own, beside the codes; whoever asks for the
weight gets its floats.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

# How an element is stored: as the number that it is, in four bits of a byte, or as the upper half
# of a float32.
AS_IT_IS, NIBBLES, BFLOAT16 = "as it is", "nibbles", "bfloat16"
# What is added to signed elements of four bits, so that none is below zero.
SHIFT = 8
# Elements that are packed at once, of which there are copies meanwhile.
_AT_ONCE = 1 << 22


@dataclass(frozen=True)
class Coded:
    """A matrix that is kept as codes.

    Attributes:
        weight: ONNX initializer that it is, and name of the argument that holds the codes.
        stored: how each is: `AS_IT_IS`, `NIBBLES` or `BFLOAT16`. Of nibbles two columns are a byte,
            the first in its lower half.
        shape: of the matrix.
        blocks: for each dimension, how many elements in a row have one scale and zero point; the
            last block may have fewer.
        scale: name of the argument that holds the scales, float32; empty for one.
        zero: name of that of the zero points; empty for zero.
        error: norm of the difference from what the file has, over the norm of that.
        in_file: whether the file has it as integers; it is no parameter of the model then.
    """

    weight: str
    stored: str
    shape: tuple[int, ...]
    blocks: tuple[int, ...]
    scale: str = ""
    zero: str = ""
    error: float = field(default=0.0, kw_only=True)
    in_file: bool = field(default=False, kw_only=True)

    @property
    def beside(self) -> tuple[str, ...]:
        """Names of the arguments beside the codes."""
        return tuple(name for name in (self.scale, self.zero) if name)

    def floats(self, tensors: Mapping[str, np.ndarray]) -> np.ndarray:
        """The matrix, float32.

        Args:
            tensors: at least the codes, the scales and the zero points, by name.
        """
        codes = _NUMBERS[self.stored](tensors[self.weight], self.shape)
        if self.zero:
            codes = codes - self._spread(tensors[self.zero])
        return codes * self._spread(tensors[self.scale]) if self.scale else codes

    def _spread(self, numbers: np.ndarray) -> np.ndarray:
        """A number for each element, or such as broadcast."""
        for axis, (size, block) in enumerate(zip(self.shape, self.blocks, strict=True)):
            if numbers.shape[axis] > 1 and block > 1:
                numbers = np.repeat(numbers, block, axis).take(range(size), axis)
        return numbers.astype(np.float32)


@dataclass(frozen=True)
class Shared:
    """Where the bytes of a tensor of the model's file are.

    Attributes:
        argument: of the step, whose bytes they are.
        is_turned: whether the highest bit of each four is turned over.
    """

    argument: str
    is_turned: bool


def decoded(tensors: Mapping[str, np.ndarray], coded: Iterable[Coded]) -> dict[str, np.ndarray]:
    """The tensors with floats in the place of codes, and without scales and zero points.

    What the file has as integers is left out.
    """
    items = [item for item in coded if item.weight in tensors]
    names = {name for item in items for name in (item.weight, *item.beside)}
    floats = {item.weight: item.floats(tensors) for item in items if not item.in_file}
    return {k: floats.get(k, v) for k, v in tensors.items() if k in floats or k not in names}


def paired(codes: np.ndarray) -> np.ndarray:
    """Codes below 16, two columns in a byte; of an odd number the last byte is half empty."""
    if codes.shape[-1] % 2:
        codes = np.pad(codes, [(0, 0)] * (codes.ndim - 1) + [(0, 1)])
    return codes[..., ::2] | codes[..., 1::2] << 4


def packed(values: np.ndarray) -> np.ndarray | None:
    """Integers, two in a byte, the first in its lower half; None where they need more bits.

    Signed ones are moved, so that none is below zero.
    """
    shift = SHIFT if values.dtype == np.int8 else 0
    least, most = int(values.min(initial=0)) + shift, int(values.max(initial=0)) + shift
    if least < 0 or most >= 2 * SHIFT:
        return None
    moved = np.array(shift, values.dtype)
    columns = values.shape[-1]
    rows = values.reshape(math.prod(values.shape[:-1]), columns)
    pairs = np.empty((len(rows), -(-columns // 2)), np.uint8)
    at_once = max(_AT_ONCE // max(columns, 1), 1)
    for first in range(0, len(rows), at_once):
        part = slice(first, first + at_once)
        pairs[part] = paired((rows[part] + moved).view(np.uint8))
    return pairs.reshape(*values.shape[:-1], -1) if values.size else pairs


def _as_it_is(codes: np.ndarray, _: tuple[int, ...]) -> np.ndarray:
    return codes.astype(np.float32)


def _nibbles(codes: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    pairs = np.stack([codes & 15, codes >> 4], -1)
    return pairs.reshape(*codes.shape[:-1], -1)[..., : shape[-1]].astype(np.float32)


def _bfloat16(codes: np.ndarray, _: tuple[int, ...]) -> np.ndarray:
    return (codes.astype(np.uint32) << 16).view(np.float32)


_NUMBERS = {AS_IT_IS: _as_it_is, NIBBLES: _nibbles, BFLOAT16: _bfloat16}
