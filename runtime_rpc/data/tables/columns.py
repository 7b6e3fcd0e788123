"""Which columns of a table are an input, and which a label."""

import re
from collections.abc import Collection, Mapping, Sequence

from odtc.core.errors import DataError
from odtc.core.printable import printable
from odtc.core.specs import Argument
from odtc.runtime_rpc.data.names import LABELS, listed, told
from odtc.runtime_rpc.data.wanted import Wanted

COLUMNS = (
    "name the column of the label as the label or y, of several numbers as y0, y1 and so on; all "
    "others are the input, in their order, or each is the input of its name"
)
# Of columns that number the rows; pandas writes one without a name.
_ROW_NUMBERS = ("", "id", "index", "unnamed: 0", "__index_level_0__")


def chosen_columns(
    names: Sequence[str], wanted: Wanted, where: str, lists: Collection[str] = ()
) -> dict[str, list[str]]:
    """The columns of each input and label that has some; without labels where none is read.

    Args:
        names: of all columns.
        wanted: what the step takes.
        where: they come from, for messages.
        lists: those whose cells hold several numbers each.

    Raises:
        DataError: a name is there twice, nothing shows which column is the label, or a column of
            the training is missing.
    """
    inputs, labels = wanted.inputs, wanted.labels
    check_once(names, where)
    columns: dict[str, list[str]] = {}
    if wanted.inputs_alone:
        features = feature_columns(names, [item.spec.name for item in labels])
        taken = [name for name in names if name not in features]
    else:
        columns = {item.spec.name: _of_label(names, item, len(labels), where) for item in labels}
        taken = [name for each in columns.values() for name in each]
    if len(inputs) == 1 and inputs[0].spec.name not in names:
        rest = [name for name in names if name not in taken]
        # What is a whole sample is the input, whatever is beside it.
        whole = [name for name in rest if name in lists]
        columns[inputs[0].spec.name] = whole if len(whole) == 1 else rest
    else:
        columns |= {i.spec.name: [i.spec.name] for i in inputs if i.spec.name in names}
    for name in wanted.columns.keys() & {item.spec.name for item in inputs}:
        columns[name] = as_trained(names, wanted.columns[name], where)
    for item in wanted.read_labels:
        if not columns[item.spec.name]:
            raise DataError(
                f"no column is called as the label, {printable(item.spec.name)} (or y)",
                where=where,
                hint=f"it has {listed(names)}; {COLUMNS}",
            )
    return {name: each for name, each in columns.items() if each}


def features_in(names: Sequence[str], where: str) -> list[str]:
    """The columns that no label is usually called as, of which means are taken.

    Raises:
        DataError: a name is there twice, or a column has none.
    """
    check_once(names, where)
    found = feature_columns(names)
    if "" in found:
        raise DataError("a column has no name", where=where, hint=_numbering([""]))
    return found


def feature_columns(names: Sequence[str], labels: Sequence[str] = ()) -> list[str]:
    """The columns that no label is usually called as, and none of these is."""
    theirs = {each for label in (*labels, *LABELS) for each in _called(label, names)}
    return [name for name in names if name not in theirs]


def check_count(names: Sequence[str], size: int, item: Argument, where: str) -> None:
    """Checks that there are as many columns as a sample has numbers.

    Raises:
        DataError: there are more, or fewer.
    """
    if len(names) == size:
        return
    hint = COLUMNS
    if numbers := [name for name in names if name.lower() in _ROW_NUMBERS]:
        hint = _numbering(numbers)
    elif len(names) > size:
        hint = f"leave out those that are not inputs; {COLUMNS}"
    raise DataError(
        f"{printable(item.spec.name)} has {len(names)} columns, {listed(names)}; the step takes "
        f"{size} numbers per sample",
        where=where,
        hint=hint,
    )


def as_trained(names: Sequence[str], trained: Sequence[str], where: str) -> list[str]:
    """The columns that an input had in training, in the order that they had there.

    Raises:
        DataError: one is missing.
    """
    if missing := [name for name in trained if name not in names]:
        raise DataError(
            f"the training had the columns {listed(missing)}, which are not there",
            where=where,
            hint=f"it has {listed(names)}; give the columns that were trained, in any order",
        )
    return [*trained]


def check_once(names: Sequence[str], where: str) -> None:
    """Checks that no two columns have the same name.

    Raises:
        DataError: two have.
    """
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise DataError(f"the column {told(twice)} appears twice", where=where, hint=COLUMNS)


def _numbering(names: Sequence[str]) -> str:
    """The hint where columns seem to number the rows."""
    return (
        f"the column {printable(names[0]) or 'without a name'} seems to number the rows: leave it "
        f"out, as DataFrame.to_csv(index=False) does; {COLUMNS}"
    )


def _of_label(names: Sequence[str], item: Argument, labels: int, where: str) -> list[str]:
    """The columns of a label: of its name, or where it is the only one of a usual name.

    Raises:
        DataError: there are several of a usual name, and nothing shows which of them it is.
    """
    if own := _called(item.spec.name, names):
        return own
    usual = [found for each in LABELS if labels == 1 and (found := _called(each, names))]
    if len(usual) > 1:
        said = " or ".join(printable(", ".join(each)) for each in usual)
        raise DataError(
            f"the label may be {said}",
            where=where,
            hint=f"name the label's column {printable(item.spec.name)}; several numbers, "
            f"{printable(item.spec.name)}0 and so on",
        )
    return usual[0] if usual else []


def _called(name: str, names: Sequence[str]) -> list[str]:
    """The column of a name, in any case, or those of the name with numbers, in their order."""
    if name in names:
        return [name]
    if same := [each for each in names if each.lower() == name.lower()]:
        return same[:1] if len(same) == 1 else []
    numbered: Mapping[str, re.Match[str] | None] = {
        each: re.fullmatch(rf"{re.escape(name)}[_.]?(\d+)", each) for each in names
    }
    found = {each: int(match[1]) for each, match in numbered.items() if match}
    return sorted(found, key=found.__getitem__)
