"""Classifies tensors by patterns of values that neither initialisation nor training leaves.

A tensor whose elements are all equal says nothing: fresh scales, biases and zero-initialised layers
look so, too.
"""

from collections.abc import Callable

import numpy as np

from odtc.core.disk.mapped_arrays import leave_pages

# Elements that are looked at, at most: patterns are regular, and embeddings may have a billion.
_MOST = 1 << 18
_FEW = 1 << 12
_CLOSE = 1e-4
_MASKED = -100.0
_COUNTS = "counts in even steps, as bins, anchors and strides do"


def pattern(value: np.ndarray) -> str:
    """The pattern in a tensor's values, as the end of a sentence; empty where there is none."""
    if value.size < 2:
        return ""
    has_infinities = np.isinf(value).any()
    leave_pages([value])
    if has_infinities:
        return "holds infinities, as masks do"
    numbers = np.asarray(value[: max(1, _MOST * len(value) // value.size)], np.float64)
    if not np.isfinite(numbers).all() or numbers.min() == numbers.max():
        return ""
    return next((text for test, text in _PATTERNS if test(numbers)), "")


def is_countable(told: str) -> bool:
    """Whether that pattern is numbers in even steps, which no layer starts from."""
    return told == _COUNTS


def is_filled(value: np.ndarray) -> bool:
    """Whether all elements are zero or all are one."""
    return value.size > 0 and bool((value == value.flat[0]).all()) and value.flat[0] in (0, 1)


def _is_mask(value: np.ndarray) -> bool:
    """Zeros, and one number far below them."""
    if value.max() != 0 or value.min() > _MASKED:
        return False
    return bool(np.isin(value, (0, value.min())).all())


def _is_count(value: np.ndarray) -> bool:
    """Numbers in even steps, as of bins, pixels, anchors and strides."""
    few = value.ravel()[:_FEW]
    found = np.unique(few)
    # A matrix of numbers that are all different is what people write who try something.
    is_list = sum(size != 1 for size in value.shape) <= 1
    least = 3 if found[0] >= 0 else 4
    if len(found) < least or (len(found) == len(few) and not (is_list and len(found) > 3)):
        return False
    steps = np.diff(found)
    return bool(np.allclose(steps, steps[0], rtol=_CLOSE, atol=0))


def _is_geometric(value: np.ndarray) -> bool:
    """Powers of one number in order, as the frequencies of rotary and sinusoidal positions."""
    row = value.ravel()[:_FEW]
    if row.size < 4 or (row <= 0).any():
        return False
    ratios = row[1:] / row[:-1]
    return abs(ratios[0] - 1) > _CLOSE and bool(np.allclose(ratios, ratios[0], rtol=1e-3))


def _is_waves(value: np.ndarray) -> bool:
    """Sines and cosines: pairs whose squares add up to one, or a first row of zeros and ones."""
    if value.ndim < 2 or value.size < 8 or np.abs(value).max() > 1 + _CLOSE:
        return False
    table = value.reshape(-1, value.shape[-1])
    if len(table) < 2:
        return False
    half = table.shape[1] // 2
    pairs = ((table[:, 0::2], table[:, 1::2]), (table[:, :half], table[:, half : 2 * half]))
    if table.shape[1] % 2 == 0 and any(np.allclose(a**2 + b**2, 1, atol=1e-3) for a, b in pairs):
        return True
    starts = np.isclose(np.abs(table[0]), 1, atol=_CLOSE)
    return bool(starts.all()) and np.abs(np.diff(table, axis=0)).max() > _CLOSE


def _is_mirrored(value: np.ndarray) -> bool:
    """Filters that are each even or odd about their middle: windows, Fourier and wavelet bases."""
    if value.ndim < 2 or value.shape[-1] < 8:
        return False
    rows = value.reshape(-1, value.shape[-1])
    if np.ptp(rows, axis=1).max() < _CLOSE:
        return False
    return _mirrors(rows) or _mirrors(rows[:, 1:]) or _mirrors(rows.T) or _mirrors(rows.T[:, 1:])


def _mirrors(rows: np.ndarray) -> bool:
    if rows.shape[1] < 8 or not _are_even_or_odd(rows[:4]):
        return False
    return _are_even_or_odd(rows)


def _are_even_or_odd(rows: np.ndarray) -> bool:
    scale = np.abs(rows).max(axis=1, keepdims=True) + 1e-12
    even = (np.abs(rows - rows[:, ::-1]) <= 1e-3 * scale).all(axis=1)
    odd = (np.abs(rows + rows[:, ::-1]) <= 1e-3 * scale).all(axis=1)
    return bool((even | odd).all())


def _is_filter_bank(value: np.ndarray) -> bool:
    """Filters of one band each, the rest zeros: mel filters."""
    if value.ndim != 2 or min(value.shape) < 4 or (value < 0).any():
        return False
    return _are_bands(value) or _are_bands(value.T)


def _are_bands(rows: np.ndarray) -> bool:
    """Whether every row is zero but for one stretch, whose place moves on from row to row."""
    filled = rows > 0
    if filled.mean() > 0.5 or not filled.any(axis=1).mean() > 0.5:
        return False
    rows = rows[filled.any(axis=1)]
    filled = rows > 0
    first, last = filled.argmax(axis=1), filled.shape[1] - filled[:, ::-1].argmax(axis=1)
    widths = filled.sum(axis=1)
    is_one = widths == last - first
    # Of an identity, which layers may start from, every band is one element.
    if widths.mean() < 1.5:
        return False
    return bool(is_one.all()) and bool((np.diff(first) >= 0).all()) and last[-1] > last[0]


def _is_repeated_filter(value: np.ndarray) -> bool:
    """One small filter for each of several channels, the same for all: blurs and wavelets."""
    is_depthwise = value.ndim == 4 and value.shape[1] == 1 and min(value.shape[2:]) > 1
    if not is_depthwise or len(value) < 2:
        return False
    return bool((value == value[:1]).all())


# The first that holds is told.
_PATTERNS: tuple[tuple[Callable[[np.ndarray], bool], str], ...] = (
    (_is_mask, "holds zeros and one large negative number, as masks do"),
    (_is_count, _COUNTS),
    (_is_geometric, "holds the powers of one number, as frequencies do"),
    (_is_waves, "holds sines and cosines, as position tables do"),
    (_is_mirrored, "holds filters that are even or odd, as windows and Fourier bases are"),
    (_is_filter_bank, "holds one band in each row, as filter banks do"),
    (_is_repeated_filter, "holds the same filter for all channels, as blurs do"),
)
