"""Material of a page: rows, the JSON of `odtc plan` and `odtc profile`, and artifacts."""

import json
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from odtc.artifact import Artifact, load
from odtc.comparison.measures.values import KIND as VALUES
from odtc.comparison.measures.values import Values, values_of
from odtc.comparison.results import Result, results_of
from odtc.comparison.row import KIND, ComparisonRow, row_of
from odtc.core.disk.row_file import parse_rows
from odtc.core.errors import DataError
from odtc.report.heads import check_head

# Keys that identify the kind of an object.
_FRONTIER, _PROFILE = {"points", "lower_bound_bytes"}, {"operators", "phases", "step_seconds"}


@dataclass
class Material:
    """The material of a page, as read from its files.

    Attributes:
        heads: of files of rows: machine, versions, and how it was measured.
        rows: of all files.
        values: of files of values without times: the head and the rows of each.
        frontiers: of `odtc plan --json`, by the stem of the file.
        profiles: of `odtc profile --json`, by the stem of the file.
        artifacts: by the stem of the file.
    """

    heads: list[Mapping[str, Any]] = field(default_factory=list)
    rows: list[list[ComparisonRow]] = field(default_factory=list)
    values: list[tuple[Mapping[str, Any], list[Values]]] = field(default_factory=list)
    frontiers: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    profiles: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    artifacts: dict[str, Artifact] = field(default_factory=dict)

    @property
    def results(self) -> list[Result]:
        """Results of each file by itself: engines of two files took no turns with each other."""
        return [result for rows in self.rows for result in results_of(rows)]


def read(paths: list[Path]) -> Material:
    """Reads files.

    Raises:
        DataError: one cannot be read, or is none of these.
        ArtifactError: one is an artifact that cannot be read.
    """
    found = Material()
    for path in paths:
        if zipfile.is_zipfile(path):
            found.artifacts[path.stem] = load(path)
        else:
            _read_text(path, found)
    return found


def _read_text(path: Path, found: Material) -> None:
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise DataError(
            f"the results cannot be read: {error.strerror}",
            where=str(path),
            hint="check the path",
        ) from error
    if not _is_rows(text, found) and not _is_object(text, path.stem, found):
        raise DataError(
            "the file has no results",
            where=str(path),
            hint="give rows of `odtc compare` or `odtc bench`, what `odtc plan --json` or "
            "`odtc profile --json` printed, or an artifact",
        )


def _is_rows(text: str, found: Material) -> bool:
    # A last line that was cut off is no row.
    whole = text[: text.rfind("\n") + 1]
    with suppress(ValueError):
        head, rows = parse_rows(whole, KIND, row_of)
        check_head(head, KIND)
        found.heads.append(head)
        found.rows.append(rows)
        return True
    with suppress(ValueError):
        head, values = parse_rows(whole, VALUES, values_of)
        check_head(head, VALUES)
        found.values.append((head, values))
        return True
    return False


def _is_object(text: str, stem: str, found: Material) -> bool:
    try:
        data = json.loads(text)
    except ValueError:
        return False
    if not isinstance(data, dict):
        return False
    for keys, kind in ((_FRONTIER, found.frontiers), (_PROFILE, found.profiles)):
        if keys <= data.keys():
            kind[stem] = data
            return True
    return False
