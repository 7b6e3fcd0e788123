"""Checks indices that are fed: one outside of what it addresses would read another row."""

import numpy as np

from odtc.core.errors import DataError
from odtc.core.options.caller_warning import warn_caller
from odtc.core.printable import printable
from odtc.core.specs import Argument


def check_indices(array: np.ndarray, item: Argument) -> None:
    """Checks the values of an input that addresses rows.

    Those below 0 count from the end, as ONNX has it, and are told by a warning: the embeddings of
    PyTorch refuse them, and who fills rows up with -100 means none of the rows.

    Args:
        array: what is fed, of any number of samples.
        item: the input.

    Raises:
        DataError: a value is none of the rows, counted from either end.
    """
    if not item.rows or array.dtype.kind not in "iu" or not array.size:
        return
    # Two passes over few numbers, and no copy of them, where all is well.
    least = array.min()
    if least >= 0 and array.max() < item.rows:
        return
    if least >= -item.rows and array.max() < item.rows:
        # The same text for each batch, which is shown once.
        warn_caller(
            f"input {printable(item.spec.name)} has indices below 0, which count from the end: -1 "
            f"is row {item.rows - 1}. Embeddings of PyTorch refuse them; -100 is a label that "
            "losses ignore, and no token to fill up with"
        )
        return
    wrong = np.flatnonzero((array < -item.rows) | (array >= item.rows))
    place = [int(each) for each in np.unravel_index(wrong[0], array.shape)]
    raise DataError(
        f"{wrong.size} of {array.size} indices are outside [{-item.rows}, {item.rows}): "
        f"{array.flat[wrong[0]]} at {place}",
        where=f"input {item.spec.name}",
        hint=f"the model has {item.rows} rows there, such as tokens of a vocabulary",
    )
