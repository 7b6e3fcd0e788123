"""Datasets of Hugging Face with a column for each number of a sample, as tables have them."""

from collections.abc import Mapping
from typing import Any

from odtc.runtime_rpc.data.tables.columns import feature_columns
from odtc.runtime_rpc.data.wanted import Wanted
from odtc.runtime_rpc.feed.arrays import marked

_NUMBERS = ("int", "uint", "float", "double", "bool")
_INPUT = "x"


def as_frame(data: Any, wanted: Wanted) -> Any:
    """A dataset with several columns of numbers as a DataFrame; what else is given as it is.

    Args:
        data: any.
        wanted: what the step takes: where it has several inputs, each is a column of its name.
    """
    names, features = getattr(data, "column_names", None), getattr(data, "features", None)
    if not isinstance(names, list) or not isinstance(features, Mapping) or len(wanted.inputs) != 1:
        return data
    own = {wanted.inputs[0].spec.name, _INPUT}
    found = feature_columns(names, [item.spec.name for item in wanted.labels])
    trained = {each for columns in wanted.columns.values() for each in columns}
    read = trained if trained and trained <= {*names} else {*found}
    if own & {*names} or len(read) < 2 or not hasattr(data, "to_pandas"):
        return data
    kinds = [str(getattr(features[name], "dtype", "")) for name in read]
    return marked(data.to_pandas(), data) if all(map(_is_number, kinds)) else data


def _is_number(dtype: str) -> bool:
    return dtype.startswith(_NUMBERS)
