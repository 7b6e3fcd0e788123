"""Which element of its window a max pooling chose, as a number: what the layers agree on.

The elements of a window are counted row by row, those in the padding too. One number more stands
for none of them.
"""

import numpy as np

_TYPES = ("uint8", "uint16", "int32")


def chosen_dtype(taps: int) -> str:
    """The smallest type that holds the numbers 0 to `taps`, of which the last one is none."""
    return next(dtype for dtype in _TYPES if taps <= np.iinfo(dtype).max)
