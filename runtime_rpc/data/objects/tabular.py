"""Samples with a column for each number, as tables have them: Datasets, and mappings."""

from collections.abc import Mapping, Sequence
from numbers import Number
from typing import Any

import numpy as np

from odtc.core.process.missing_packages import require_packages
from odtc.runtime_rpc.data.objects.named import Naming
from odtc.runtime_rpc.data.tables.columns import feature_columns
from odtc.runtime_rpc.data.wanted import Wanted
from odtc.runtime_rpc.feed.arrays import marked, marked_as

_NUMBERS = ("int", "uint", "float", "double", "bool")
_INPUT = "x"


def as_frame(data: Any, wanted: Wanted) -> Any:
    """A dataset, or a list, with several columns of numbers as a DataFrame; others as they are.

    Args:
        data: any.
        wanted: what the step takes: where it has several inputs, each is a column of its name.
    """
    if isinstance(data, list | tuple) and data:
        naming = Naming(wanted.inputs, wanted.labels, "data", "a sample", wanted.inputs_alone)
        return _frame(data, "the list") if _has_columns(data, naming) else data
    dataset: Any = data
    names, features = getattr(dataset, "column_names", None), getattr(dataset, "features", None)
    if not isinstance(names, list) or not isinstance(features, Mapping) or len(wanted.inputs) != 1:
        return data
    own = {wanted.inputs[0].spec.name, _INPUT}
    found = feature_columns(names, [item.spec.name for item in wanted.labels])
    trained = {each for columns in wanted.columns.values() for each in columns}
    read = trained if trained and trained <= {*names} else {*found}
    if own & {*names} or len(read) < 2 or not hasattr(data, "to_pandas"):
        return data
    kinds = [str(getattr(features[name], "dtype", "")) for name in read]
    return marked(dataset.to_pandas(), data) if all(map(_is_number, kinds)) else data


def columns_in(sample: Any, naming: Naming) -> list[str]:
    """The columns of a sample that are the only input, a number in each; none of other samples."""
    if len(naming.inputs) != 1 or not isinstance(sample, Mapping):
        return []
    if {naming.inputs[0].spec.name, _INPUT} & {*sample} or not all(
        isinstance(name, str) for name in sample
    ):
        return []
    found = feature_columns([*sample], [item.spec.name for item in naming.labels])
    are_numbers = all(isinstance(_plain(sample[name]), Number) for name in found)
    return found if len(found) > 1 and are_numbers else []


def columns_of_batch(
    samples: Sequence[Any], naming: Naming
) -> tuple[dict[str, Any], dict[str, np.ndarray]] | None:
    """Samples with a column for each number as a DataFrame of the input, and labels by name.

    Returns:
        The pair; None of other samples, as the first of them tells.

    Raises:
        DataError: a label is missing, or is no number.
        MissingPackageError: pandas is not installed.
    """
    if not _has_columns(samples, naming):
        return None
    labels = () if naming.inputs_alone else naming.labels
    theirs = [naming.label_keys(sample) for sample in samples]
    named = [
        {name: sample[key] for name, key in keys.items()}
        for sample, keys in zip(samples, theirs, strict=True)
    ]
    names = [item.spec.name for item in naming.labels]
    rows = [
        {name: sample[name] for name in feature_columns([*sample], names)} for sample in samples
    ]
    return {naming.inputs[0].spec.name: _frame(rows, naming.where)}, naming.stacked(named, labels)


def _has_columns(samples: Sequence[Any], naming: Naming) -> bool:
    """Whether samples have columns, as the first of them tells; see `columns_in`."""
    are_named = all(isinstance(each, Mapping) for each in samples)
    return are_named and bool(columns_in(samples[0], naming))


def _frame(rows: Sequence[Mapping[str, Any]], name: str) -> Any:
    """A DataFrame of rows, by its name in messages; a cell is empty where a row has none."""
    require_packages("pandas")
    import pandas

    return marked_as(
        pandas.DataFrame([{key: _plain(row[key]) for key in row} for row in rows]), name
    )


def _plain(value: Any) -> Any:
    """The number in an array or a tensor without dimensions; the same of others."""
    return value.item() if getattr(value, "shape", None) == () else value


def _is_number(dtype: str) -> bool:
    return dtype.startswith(_NUMBERS)
