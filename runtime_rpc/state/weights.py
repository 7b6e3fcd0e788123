"""Checks new values of weights against those of the step."""

from collections.abc import Mapping

import numpy as np

from odtc.core.errors import DataError
from odtc.core.specs import Argument
from odtc.runtime_rpc.feed.arrays import as_array, cast


def fitted_weight(name: str, value: np.ndarray, weights: Mapping[str, Argument]) -> np.ndarray:
    """The value in the dtype of the weight.

    Raises:
        DataError: there is no such weight, the shape or the kind of dtype differs, or a number
            does not fit.
    """
    if name not in weights:
        raise DataError(
            f"the step has no weight {name!r}",
            where="set_parameters",
            hint="`odtc check MODEL` lists the parameters' names",
        )
    where = f"set_parameters, {name}"
    spec, array = weights[name].spec, as_array(value, where)
    if array.shape != spec.shape or not np.can_cast(array.dtype, spec.dtype, "same_kind"):
        raise DataError(
            f"the weight is {spec}; its new value is {array.dtype}{list(array.shape)}",
            where=where,
            hint="give an array of that shape and kind",
        )
    return cast(array, spec.dtype, where)
