"""Material of a page: rows, the JSON of `odtc plan` and `odtc profile`, and artifacts."""

import json
import os
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from odtc.artifact import Artifact, load
from odtc.comparison.measures.values import KIND as VALUES
from odtc.comparison.measures.values import Values, values_of
from odtc.comparison.results import Result, check_turns, results_of
from odtc.comparison.row import KIND, ComparisonRow, row_of
from odtc.core.disk.file_limits import MOST_RESULTS_BYTES
from odtc.core.disk.row_file import parse_rows
from odtc.core.errors import DataError
from odtc.core.printable import printable
from odtc.core.typed import typed
from odtc.driver.frontier import Frontier, frontier_of
from odtc.report.heads import check_head
from odtc.report.profiled import Profiled

_ZIP = b"PK\x03\x04"


@dataclass
class Material:
    """The material of a page, as read from its files.

    Attributes:
        heads: of files of rows: machine, versions, and how it was measured.
        rows: of all files.
        names: of these files.
        values: of files of values without times: the head and the rows of each.
        frontiers: of `odtc plan --json`, by the names of their files.
        profiles: of `odtc profile --json`, likewise.
        artifacts: likewise.
    """

    heads: list[Mapping[str, Any]] = field(default_factory=list)
    rows: list[list[ComparisonRow]] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    values: list[tuple[Mapping[str, Any], list[Values]]] = field(default_factory=list)
    frontiers: dict[str, Frontier] = field(default_factory=dict)
    profiles: dict[str, Profiled] = field(default_factory=dict)
    artifacts: dict[str, Artifact] = field(default_factory=dict)

    @property
    def results(self) -> list[Result]:
        """Results of each file by itself: engines of two files took no turns with each other.

        Of a setting that several files have, the model's name says which file it is of.
        """
        of = Counter(setting for rows in self.rows for setting in {row.setting for row in rows})
        found: list[Result] = []
        for name, rows in zip(self.names, self.rows, strict=True):
            found += results_of(_of_file(row, name) if of[row.setting] > 1 else row for row in rows)
        return found


def _of_file(row: ComparisonRow, name: str) -> ComparisonRow:
    return replace(row, setting=replace(row.setting, model=f"{row.setting.model} ({name})"))


def read(paths: list[Path]) -> Material:
    """Reads files.

    Raises:
        DataError: one cannot be read, or is none of these.
        ArtifactError: one is an artifact that cannot be read.
    """
    found = Material()
    # A file that is given twice is one: its rows would count twice.
    once = list({os.path.realpath(path): path for path in paths}.values())
    for path, name in zip(once, _names(once), strict=True):
        content = _read(path)
        if content == _ZIP:
            found.artifacts[name] = load(path)
        else:
            _take(content, path, name, found)
    return found


def _names(paths: Sequence[Path]) -> Sequence[str]:
    """The stems of paths, or as little more of them as tells them apart."""
    names, count = [path.stem for path in paths], 0
    while len({*names}) < len(names):
        count += 1
        names = ["/".join(path.absolute().parts[-count:]) for path in paths]
    return [printable(name) for name in names]


def _read(path: Path) -> bytes:
    """What it holds; of an artifact, or of what is too large, the first bytes."""
    try:
        with path.open("rb") as file:
            begin = file.read(len(_ZIP))
            return begin if begin == _ZIP else begin + file.read(MOST_RESULTS_BYTES)
    except OSError as error:
        raise DataError(
            f"the results cannot be read: {error.strerror}",
            where=str(path),
            hint="check the path",
        ) from error


def _take(content: bytes, path: Path, name: str, found: Material) -> None:
    if len(content) > MOST_RESULTS_BYTES:
        raise DataError(
            f"the file has more than {MOST_RESULTS_BYTES:,} bytes",
            where=str(path),
            hint="give files that odtc wrote",
        )
    # PowerShell's `>` writes UTF-16.
    encoding = "utf-16" if content.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) else "utf-8-sig"
    text = content.decode(encoding, "replace")
    keys = _keys(text)
    take = next((take for kind, take in _KINDS.items() if kind in keys), None)
    if take is None:
        raise DataError(
            "the file has no results",
            where=str(path),
            hint="give rows of `odtc compare` or `odtc bench`, what `odtc plan --json` or "
            "`odtc profile --json` printed, or an artifact",
        )
    try:
        take(text, name, found)
    except ValueError as error:
        raise DataError(
            f"the results are not as odtc writes them: {error}",
            where=str(path),
            hint="measure again, or leave the file out",
        ) from error


def _keys(text: str) -> Iterable[str]:
    """The keys of the object that the file, or its first line, is."""
    for part in (text.split("\n", 1)[0], text):
        # Lists in lists in lists without an end are none.
        with suppress(ValueError, RecursionError):
            data = json.loads(part)
            return data.keys() if isinstance(data, dict) else ()
    return ()


def _take_rows(text: str, name: str, found: Material) -> None:
    head, rows = parse_rows(_whole(text), KIND, row_of)
    check_head(head, KIND)
    check_turns(rows)
    found.heads.append(head)
    found.rows.append(rows)
    found.names.append(name)


def _take_values(text: str, _: str, found: Material) -> None:
    head, values = parse_rows(_whole(text), VALUES, values_of)
    check_head(head, VALUES)
    found.values.append((head, values))


def _whole(text: str) -> str:
    """The lines that are whole: a last one that was cut off is no row."""
    return text[: text.rfind("\n") + 1]


def _take_frontier(text: str, name: str, found: Material) -> None:
    frontier = frontier_of(json.loads(text))
    if not frontier.points:
        raise ValueError("a plan without points")
    found.frontiers[name] = frontier


def _take_profile(text: str, name: str, found: Material) -> None:
    found.profiles[name] = typed(Profiled, json.loads(text))


# By a key that tells the kind of a file.
_KINDS: Mapping[str, Callable[[str, str, Material], None]] = {
    KIND: _take_rows,
    VALUES: _take_values,
    "points": _take_frontier,
    "step_seconds": _take_profile,
}
