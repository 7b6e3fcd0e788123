"""Batches that are drawn, to measure steps with; see `odtc profile` and `odtc sweep`."""

from collections.abc import Iterator, Sequence

import numpy as np

from odtc.core.artifact.manifest import Manifest
from odtc.core.specs import Argument, Role
from odtc.runtime_rpc.data.source import Batch


def drawn(manifest: Manifest) -> Iterator[Batch]:
    """The same batch for ever: see `draw_arguments`."""
    batch = draw_arguments(manifest.fed(Role.INPUT), manifest.fed(Role.LABEL))
    while True:
        yield batch


def draw_arguments(inputs: Sequence[Argument], labels: Sequence[Argument]) -> Batch:
    """One batch: normal numbers, the first of all indices, and classes."""
    random = np.random.default_rng(0)
    x = {
        item.spec.name: random.standard_normal(item.spec.shape).astype(item.spec.dtype)
        if np.issubdtype(item.spec.dtype, np.floating)
        else np.zeros(item.spec.shape, item.spec.dtype)
        for item in inputs
    }
    y = {
        item.spec.name: _counting(item, random.integers(item.classes.count, size=item.spec.shape))
        if item.classes
        else random.random(item.spec.shape).astype(item.spec.dtype)
        for item in labels
    }
    return x, y


def _counting(item: Argument, labels: np.ndarray) -> np.ndarray:
    """Labels that all count: rows whose last ones do not would be taken as shorter ones."""
    assert item.classes
    ignored, count = item.classes.ignored, item.classes.count
    return labels if ignored is None else np.where(labels == ignored, (ignored + 1) % count, labels)
