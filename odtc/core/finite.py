"""Whether what training made are numbers."""

from collections.abc import Mapping

import numpy as np

from odtc.core.errors import NumericError

LAST_CHECKPOINT = "load the last checkpoint, and train with a lower learning rate"
"""What to do where weights are not finite that would leave a trainer."""


def check_finite(values: Mapping[str, np.ndarray], where: str, hint: str) -> None:
    """Checks that all elements are finite.

    Args:
        values: arrays by name, of any dtype.
        where: they would be written to.
        hint: what to do otherwise.

    Raises:
        NumericError: some are not; it names the first array, and says how many of its elements.
    """
    for name, value in values.items():
        finite = np.isfinite(value)
        if not finite.all():
            wrong = value[~finite]
            raise NumericError(
                f"{wrong.size} of {value.size} elements of {name!r} are not finite, such as "
                f"{wrong.flat[0]}",
                where=where,
                hint=hint,
            )
