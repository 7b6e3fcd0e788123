"""The history of a run: what was measured when, as a table that is the same however it was cut."""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from odtc.core.elsewhere.names import HISTORY
from odtc.core.elsewhere.rows import check_set, no_attribute
from odtc.core.errors import UsageError
from odtc.core.notebook import html_table
from odtc.core.options.option_text import did_you_mean

Row = dict[str, float]


@dataclass
class History:
    """What a run measured: a row for the end of each epoch and for each validation within it.

    `history["val_loss"]` is a column. A run that was interrupted and resumed has the same rows, to
    the last bit, as one that was not.

    Attributes:
        rows: each has `step`, `epoch` (from 1), `lr` of its last step, `loss` of the steps since
            the previous row, and with a validation `val_loss` and metrics such as `val_accuracy`.
            `loss` is the mean over labels, with their weights in the loss; NaN if no label counts.
            If the model computes the loss, or it has several terms, it is the mean over steps.
        stopped: why the run ended before its last step, including interrupts and errors; empty if
            it did not.
        class_names: names of the classes by index, if the samples have them.
    """

    rows: list[Row] = field(default_factory=list)
    stopped: str = ""
    class_names: tuple[str, ...] = ()

    def __getitem__(self, key: str) -> list[float]:
        names = self.keys()
        if key not in names:
            raise UsageError(
                f"the history has no column {key!r}",
                hint=f"{did_you_mean(str(key), names)}it has {', '.join(names) or 'no rows'}; "
                "history.rows has the rows",
            )
        return [row[key] for row in self.rows if key in row]

    def __getattr__(self, name: str) -> Any:
        raise no_attribute(self, name, HISTORY)

    def __setattr__(self, name: str, value: object) -> None:
        check_set(self, name, self.__dataclass_fields__, HISTORY)
        super().__setattr__(name, value)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def keys(self) -> list[str]:
        """The names of the columns."""
        return [*dict.fromkeys(key for row in self.rows for key in row)]

    def best(self, monitor: str = "val_loss", *, larger: bool = False) -> Row | None:
        """The row with the best value of a column, the first of equal ones; None without one."""
        rows = [row for row in self.rows if monitor in row and row[monitor] == row[monitor]]
        if not rows:
            return None
        return max(rows, key=lambda row: row[monitor] if larger else -row[monitor])

    def as_data(self) -> list[dict[str, float | None]]:
        """The rows as what JSON has: None for what is not finite."""
        return [for_json(row) for row in self.rows]

    def __str__(self) -> str:
        names = self.keys()
        cells = [names, *([_shown(row.get(name)) for name in names] for row in self.rows)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = ["  ".join(map(str.rjust, row, widths)) for row in cells]
        return "\n".join([*lines, *([f"stopped: {self.stopped}"] if self.stopped else [])])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        names = self.keys()
        rows = [[_shown(row.get(name)) for name in names] for row in self.rows]
        return html_table(rows, names, f"stopped: {self.stopped}" if self.stopped else "")


def for_json(row: Mapping[str, float]) -> dict[str, float | None]:
    """Numbers as what JSON has, which knows neither nan nor infinity."""
    return {key: value if math.isfinite(value) else None for key, value in row.items()}


def _shown(value: Any) -> str:
    if value is None:
        return ""
    return str(value) if isinstance(value, int) else f"{value:.4g}"


@dataclass
class Progress:
    """What a checkpoint keeps of a run beside the weights: enough to go on as if nothing had been.

    Attributes:
        start: the trainer's steps before the run.
        step: the trainer's steps at the checkpoint.
        rows: of the history.
        loss: the sum of the losses since the last row, each times what its labels weigh.
        count: of these.
        weight: of their labels, together.
        unlabelled: steps so far without a label that counts.
        first_unlabelled: the number of the first of them; 0 where there is none.
        notes: what callbacks keep, for JSON.
        class_names: see `History`.
        column_names: of each input that is made of columns, in their order.
    """

    start: int = 0
    step: int = 0
    rows: list[Row] = field(default_factory=list)
    loss: float = 0.0
    count: int = 0
    weight: float = 0.0
    unlabelled: int = 0
    first_unlabelled: int = 0
    notes: dict[str, Any] = field(default_factory=dict)
    class_names: list[str] = field(default_factory=list)
    column_names: dict[str, list[str]] = field(default_factory=dict)

    def to_text(self) -> str:
        """As JSON: Python writes a float so that it reads back to the same bits."""
        return json.dumps(self.__dict__)

    @staticmethod
    def of_text(text: str, step: int) -> "Progress | None":
        """Reads it back; None where it is of another step, or of none."""
        if not text:
            return None
        try:
            held = json.loads(text)
            # Before losses were weighed, each step counted as one.
            found = Progress(**{"weight": held["count"], **held})
        except (KeyError, TypeError, ValueError):
            return None
        return found if found.step == step else None


def class_names_of(progress: str) -> list[str]:
    """The names of the classes of the run that such a text is of; none where it says none."""
    return _names(_said(progress, "class_names"))


def column_names_of(progress: str) -> dict[str, list[str]]:
    """The names of the columns of each input of such a run; none where it says none."""
    found = _said(progress, "column_names")
    return {k: _names(v) for k, v in found.items()} if isinstance(found, dict) else {}


def _said(progress: str, what: str) -> Any:
    try:
        return json.loads(progress or "{}").get(what)
    except (AttributeError, ValueError):
        return None


def _names(found: Any) -> list[str]:
    return [str(name) for name in found] if isinstance(found, list) else []
