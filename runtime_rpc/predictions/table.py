"""Predictions as the rows of a table, one for each sample.

Images have a column `file`, and classes a column `class` and one for the score of each, by its
name where that is known: `file,class,cat,dog`. Numbers have the name of the output: `price`, or of
several `price0,price1`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from odtc.core.artifact.manifest import Evaluation, Manifest
from odtc.core.errors import UsageError
from odtc.core.specs import free_name
from odtc.runtime_rpc.loop.history import for_json
from odtc.runtime_rpc.predictions.classes import is_table, scores_of

FILE, CLASS = "file", "class"
"""The columns of the samples' names and of the predicted classes."""


@dataclass(frozen=True)
class Table:
    """The form of a table.

    Attributes:
        name: of the output.
        width: numbers of a sample.
        classes: whose scores they are; 0 where they are none.
        is_logit: whether the number is a logit, above 0 of class 1.
        class_names: of these by their numbers; none where nobody knows them.
        sample_names: what each sample is called; none where they have no names.
    """

    name: str
    width: int
    classes: int = 0
    is_logit: bool = False
    class_names: Sequence[str] = ()
    sample_names: Sequence[str] = field(default=(), repr=False)

    @cached_property
    def columns(self) -> list[str]:
        """The names of the columns."""
        found = [FILE] if self.sample_names else []
        found += [CLASS] if self.classes or self.is_logit else []
        own = (
            [*self.class_names]
            if self.class_names and self.classes
            else [self.name if self.width == 1 else f"{self.name}{n}" for n in range(self.width)]
        )
        for name in own:
            found.append(free_name(name, found))
        return found

    def rows(self, part: np.ndarray, first: int) -> Iterator[list[str]]:
        """The cells of some samples; numbers are the shortest texts that read back as they are.

        Args:
            part: the output, samples along axis 0.
            first: the number of the first of them.
        """
        scores = part.reshape(len(part), self.width)
        for number, row in enumerate(scores, first):
            cells = [self.sample_names[number]] if self.sample_names else []
            if self.classes or self.is_logit:
                cells.append(self._class_of(row))
            yield [*cells, *map(str, row)]

    def as_data(self, row: Sequence[str]) -> dict[str, str | float | None]:
        """A row for JSON, which has no number that is not finite."""
        first = len(self.columns) - self.width
        scores = zip(self.columns[first:], map(float, row[first:]), strict=True)
        return {**dict(zip(self.columns[:first], row, strict=False)), **for_json(dict(scores))}

    def _class_of(self, row: np.ndarray) -> str:
        """The class of a sample; empty where a score is no number."""
        if np.isnan(row).any():
            return ""
        number = int(row[0] > 0) if self.is_logit else int(row.argmax())
        return self.class_names[number] if self.class_names else str(number)


def table_of(
    manifest: Manifest,
    evaluation: Evaluation,
    class_names: Sequence[str],
    sample_names: Sequence[str],
) -> Table:
    """The table of an output.

    Args:
        manifest: of the step.
        evaluation: of the output.
        class_names: by their numbers; none where nobody knows them.
        sample_names: what each sample is called; none where they have no names.

    Raises:
        UsageError: the output has no row of numbers for each sample.
    """
    output, place = evaluation.output, evaluation.place
    if not is_table(evaluation):
        where = "nothing shows where its samples lie" if place is None else "a sample has more axes"
        raise UsageError(
            f"{output} has no row of numbers for each sample: {where}",
            where="predictions as a table",
            hint="write an array: -o FILE.npy",
        )
    found = scores_of(manifest, evaluation)
    classes = found.classes
    if not manifest.labels and len(class_names) == found.width:
        # The file of an export of before said no more of its outputs than that.
        classes = found.width
    known = class_names if len(class_names) == (classes or found.told) else ()
    return Table(output.name, found.width, classes, found.is_logit, known, sample_names)
