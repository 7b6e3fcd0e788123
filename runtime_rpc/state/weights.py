"""Checks new values of weights against those of the step."""

from collections.abc import Iterable, Mapping

import numpy as np

from odtc.core.coded import Coded
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


def refuse_coded(names: Iterable[str], coded: Iterable[Coded]) -> None:
    """Checks that no weight is to be changed that is kept as codes.

    Raises:
        DataError: one is.
    """
    kept = {name for item in coded for name in (item.weight, *item.beside)}
    for name in kept.intersection(names):
        raise DataError(
            "the weight is frozen and kept as codes, which take no other values",
            where=f"set_parameters, {name}",
            hint="leave it out; or compile a model that has the new values",
        )
