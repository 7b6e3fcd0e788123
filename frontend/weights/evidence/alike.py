"""Whether two float tensors hold the same numbers, whatever type each of them has."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from odtc.core.disk.mapped_arrays import leave_pages

# NumPy has no limits of a type that is not its own.
_BFLOAT16 = (2.0**-7, 2.0**-126)
# Steps between neighbouring numbers of a type that rounding may move one by.
_STEPS = 4


@dataclass(frozen=True)
class Held:
    """The float tensors of a file, by name and by what they hold.

    Attributes:
        values: the tensors.
        digests: by type, the names of the tensors that hold the same when rounded to it.
    """

    values: Mapping[str, np.ndarray]
    digests: dict[np.dtype, dict[bytes, list[str]]] = field(default_factory=dict)

    def like(self, value: np.ndarray) -> list[tuple[str, str]]:
        """Tensors with these elements, in the coarser type of both, and how they lie."""
        turned = [(value.T, "transposed")] if value.ndim == 2 and min(value.shape) > 1 else []
        found: dict[str, str] = {}
        for dtype in {coarser(each.dtype, value.dtype) for each in self.values.values()}:
            for form, how in [(value, ""), *turned]:
                for name in self._digested(dtype).get(_digest(_cast(form, dtype)), ()):
                    if coarser(self.values[name].dtype, value.dtype) == dtype:
                        found.setdefault(name, how)
        return list(found.items())

    def _digested(self, dtype: np.dtype) -> Mapping[bytes, Sequence[str]]:
        if dtype not in self.digests:
            found = self.digests[dtype] = {}
            for name, value in self.values.items():
                found.setdefault(_digest(_cast(value, dtype)), []).append(name)
        return self.digests[dtype]


def coarser(one: np.dtype, other: np.dtype) -> np.dtype:
    """The one of two float types whose numbers lie further apart."""
    return one if _limits(one) > _limits(other) else other


def is_same(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether tensors of as many elements are equal when both are in the coarser type.

    What is finite in one and not in the other is not equal: it was too large for that type.
    """
    if not np.array_equal(np.isfinite(_wide(one)), np.isfinite(_wide(other))):
        return False
    dtype = coarser(one.dtype, other.dtype)
    return np.array_equal(_wide(_cast(one, dtype)), _wide(_cast(other, dtype)), equal_nan=True)


def is_rounded(one: np.ndarray, other: np.ndarray, *, of_logarithm: bool = False) -> bool:
    """Whether tensors of as many elements differ by rounding in the coarser type at most.

    Args:
        one: a tensor.
        other: a tensor.
        of_logarithm: whether one is the logarithm of what was stored: a step of the stored number
            is one of the logarithm near 1, however small that is.
    """
    step, least = _limits(coarser(one.dtype, other.dtype))
    a, b = _wide(one), _wide(other)
    if not (np.isfinite(a) & np.isfinite(b)).all():
        return False
    size = np.maximum(np.maximum(np.abs(a), np.abs(b)), 1.0 if of_logarithm else least)
    return bool((np.abs(a - b) <= _STEPS * step * size).all())


def gap(one: np.ndarray, other: np.ndarray) -> float:
    """The largest difference of tensors of as many elements."""
    a, b = _wide(one), _wide(other)
    differs = a != b
    return float(np.abs(a[differs] - b[differs]).max(initial=0.0))


def _limits(dtype: np.dtype) -> tuple[float, float]:
    """The step between numbers near 1 in a type, and its least number of full precision."""
    if dtype.kind != "f":
        return _BFLOAT16
    limits = np.finfo(dtype)
    return float(limits.eps), float(limits.smallest_normal)


def _cast(value: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Too large numbers become infinite without a warning."""
    with np.errstate(over="ignore"):
        return value.astype(dtype)


def _wide(value: np.ndarray) -> np.ndarray:
    return value.astype(np.float64).ravel()


def _digest(value: np.ndarray) -> bytes:
    elements = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
    found = hashlib.blake2b(elements.data, digest_size=16).digest()
    leave_pages([value])
    return found
