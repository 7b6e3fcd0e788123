"""Whether what fills rows up changes nothing before it: tried once, by the step's own evaluations.

Two batches have the same first places, and nothing in common behind these, not even the length. In
a causal model, and in one whose mask is zero there, outputs of the first places are the same.
"""

from collections.abc import Mapping

import numpy as np

from odtc.core.artifact.manifest import Evaluation, Manifest
from odtc.core.specs import Argument, Role
from odtc.runtime_rpc.evaluations import Evaluations
from odtc.runtime_rpc.lengths.rows import Row, Rows, axes_between

# Of the largest output: sums of other lengths are added up in another order.
_TOLERANCE = 1e-5


def is_exact(
    manifests: Mapping[int, Manifest], evaluations: Mapping[int, Evaluations], rows: Rows
) -> bool:
    """Whether outputs of what a row has are the same, whatever it is filled up with.

    Args:
        manifests: by length.
        evaluations: the same.
        rows: of the step.
    """
    *_, longer, shorter = rows.lengths
    places = -(-shorter // 2)
    seen = [
        evaluations[length].all(_batch(manifests[length], rows, places, length), {})
        for length in (shorter, longer)
    ]
    pairs = zip(manifests[shorter].evaluations, manifests[longer].evaluations, strict=True)
    return all(
        _is_same(each, other, seen[0][each.output.name], seen[1][each.output.name], places)
        for each, other in pairs
    )


def _is_same(
    of: Evaluation, other: Evaluation, one: np.ndarray, two: np.ndarray, places: int
) -> bool:
    axes = axes_between(other.output.shape, of.output.shape)
    first = tuple(slice(places) if a in axes else slice(None) for a in range(one.ndim))
    one, two = one[first], two[first]
    if one.shape != two.shape:
        return False
    largest = np.max(np.abs(one), initial=0.0)
    return bool(np.allclose(one, two, rtol=0.0, atol=_TOLERANCE * largest, equal_nan=True))


def _batch(manifest: Manifest, rows: Rows, places: int, length: int) -> dict[str, np.ndarray]:
    """Inputs of a batch that are alike at the first places, whatever the length."""
    return {
        item.spec.name: _drawn(item, rows, places, length) for item in manifest.of_role(Role.INPUT)
    }


def _drawn(item: Argument, rows: Rows, places: int, length: int) -> np.ndarray:
    shape, dtype = item.spec.shape, np.dtype(item.spec.dtype)
    if item.spec.name not in rows:
        return np.zeros(shape, dtype)
    row = rows[item.spec.name]
    if row.is_mask:
        return row.fit(np.ones(_with(shape, row, places), dtype), length)
    first = _values(item, _with(shape, row, places), places)
    # Of another seed: what lies behind is another thing at each length.
    whole = _values(item, shape, length)
    whole[tuple(slice(n) for n in first.shape)] = first
    return whole


def _with(shape: tuple[int, ...], row: Row, length: int) -> tuple[int, ...]:
    return tuple(length if axis in row.axes else n for axis, n in enumerate(shape))


def _values(item: Argument, shape: tuple[int, ...], seed: int) -> np.ndarray:
    draw, dtype = np.random.default_rng(seed), np.dtype(item.spec.dtype)
    if dtype.kind == "f":
        return draw.standard_normal(shape).astype(dtype)
    return draw.integers(0, item.rows or 2, shape).astype(dtype)
