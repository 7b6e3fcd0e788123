"""Checks indices that are fed: one outside of what it addresses would read another row."""

import numpy as np

from odtc.core.errors import DataError
from odtc.core.specs import Argument


def check_indices(array: np.ndarray, item: Argument) -> None:
    """Checks the values of an input that addresses rows.

    Args:
        array: what is fed, of any number of samples.
        item: the input.

    Raises:
        DataError: a value is none of the rows, counted from either end.
    """
    if not item.rows or array.dtype.kind not in "iu" or not array.size:
        return
    # Two passes over few numbers, and no copy of them, where all is well.
    if array.min() >= -item.rows and array.max() < item.rows:
        return
    wrong = np.flatnonzero((array < -item.rows) | (array >= item.rows))
    place = [int(each) for each in np.unravel_index(wrong[0], array.shape)]
    raise DataError(
        f"{wrong.size} of {array.size} indices are outside [{-item.rows}, {item.rows}): "
        f"{array.flat[wrong[0]]} at {place}",
        where=f"input {item.spec.name}",
        hint=f"the model has {item.rows} rows there, such as tokens of a vocabulary",
    )
