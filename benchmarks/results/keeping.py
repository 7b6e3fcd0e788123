"""Takes what commands wrote into docs/results, or says why that is not a result."""

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.pages.result import Result, read_file
from benchmarks.results.place import SAME, Place, head_of
from benchmarks.results.running import Ended
from benchmarks.results.table import Kind, Row, spelled
from odtc.core.disk.files import atomic_write


class NoResultError(Exception):
    """What was written is no result of this commit."""


def rows_in(path: Path) -> int:
    """How many rows a result has; 0 where there is no file."""
    if not path.is_file():
        return 0
    if path.suffix == ".jsonl":
        return len(path.read_text(encoding="utf-8").splitlines()) - 1
    return len(read_file(path).rows)


def keep(row: Row, written: Sequence[Path], ended: Sequence[Ended], place: Place) -> None:
    """Takes the files of a row's commands into docs/results.

    Args:
        row: whose commands ended well.
        written: by them: of figures one by each command, of a suite one by all.
        ended: how each command did.
        place: the clone.

    Raises:
        NoResultError: a file is not there, or not of the commit that was to be measured.
    """
    for path in written:
        if not path.is_file():
            raise NoResultError("its command ended well, and wrote nothing")
    if row.kind is Kind.SUITE:
        _keep_rows(row, written[0], ended, place)
    else:
        _keep_figures(row, written, ended, place)


def _minutes(ended: Sequence[Ended]) -> dict[str, float]:
    """What commands took in all; nothing where one went on with what another run had begun."""
    if any(each.went_on for each in ended):
        return {}
    return {"minutes": round(sum(each.seconds for each in ended) / 60, 1)}


def _keep_rows(row: Row, path: Path, ended: Sequence[Ended], place: Place) -> None:
    _, *rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    head = head_of(path)
    commit, machine = head.get("commit", ""), head.get("machine", {})
    _check_commit(commit, place)
    commands = [*map(spelled, row.commands)]
    run = {
        "file": row.file,
        "date": max(each.get("began", "") for each in rows)[:10],
        "commit": commit,
        "command": commands[0],
        "machine": {key: machine[key] for key in SAME if key in machine},
        **({"conditions": _then(commands[1:])} if commands[1:] else {}),
        "busy": round(_busy(rows), 2),
        **_minutes(ended),
    }
    said = json.loads(place.index.read_text(encoding="utf-8"))
    said["runs"] = [run if each["file"] == row.file else each for each in said["runs"]]
    with atomic_write(place.results / row.file) as temporary:
        shutil.copyfile(path, temporary)
    _write(said, place.index)


def _busy(rows: Sequence[Mapping[str, Any]]) -> float:
    """What other programs kept busy on average, as rows say: some may be of earlier runs."""
    shares = [share for row in rows for share in row.get("busy", ())]
    return sum(shares) / len(shares) if shares else 0.0


def _then(commands: Sequence[str]) -> str:
    return "".join(f", then `{each}`" for each in commands)


def _keep_figures(row: Row, written: Sequence[Path], ended: Sequence[Ended], place: Place) -> None:
    found = [read_file(path) for path in written]
    for each in found:
        _check_commit(each.runs[0]["commit"], place)
    said = joined(found)
    for run, how in zip(said["runs"], ended, strict=True):
        # The end of a run, which it has seen itself, may have been busier than all of it. What
        # is counted does not depend on it.
        busy = max(run.pop("busy", 0), round(how.busy, 2))
        run.update({"busy": busy} if row.is_timed else {})
    said["runs"][0] |= _minutes(ended)
    _write(said, place.results / row.file)


def joined(found: Sequence[Result]) -> dict[str, Any]:
    """One table of several runs: rows have the number of theirs, other figures come together."""
    rows, more = [], {}
    for number, each in enumerate(found):
        rows += [{**row, "run": number} if number else dict(row) for row in each.rows]
        for key, value in each.more.items():
            is_merged = isinstance(value, Mapping) and key in more
            more[key] = {**more[key], **value} if is_merged else value
    return {"runs": [dict(each.runs[0]) for each in found], "rows": rows, **more}


def _check_commit(commit: str, place: Place) -> None:
    if commit != place.commit:
        raise NoResultError(
            f"its figures are of commit {commit or 'unknown'}, not of {place.commit}: sources "
            "changed while it ran"
        )


def _write(said: Mapping[str, Any], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as temporary:
        temporary.write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")


@contextmanager
def put_back(row: Row, place: Place) -> Iterator[None]:
    """Has the files of a row be those of before where the block does not end well."""
    paths = [place.results / row.file, place.index]
    before = {path: path.read_bytes() for path in paths if path.is_file()}
    try:
        yield
    except BaseException:
        for path in paths:
            if path in before:
                path.write_bytes(before[path])
            else:
                path.unlink(missing_ok=True)
        raise
