"""Measures rows one after the other; what fails costs no other one."""

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.results.choice import Item
from benchmarks.results.keeping import NoResultError, keep, put_back, rows_in
from benchmarks.results.place import Place
from benchmarks.results.running import Ended, run_command
from benchmarks.results.table import Kind, Row, words_of
from odtc.comparison.measures.measure import busy_share
from odtc.comparison.results import BUSY

WRITE_PAGES = "python -m benchmarks.pages"
# A command that hangs is ended after so many minutes, or so many times of what it should take.
_LEAST_LIMIT, _TIMES = 30, 5
# `odtc bench` ends with it where a peer's losses are others: a row says so, and has no times.
_OTHER_LOSSES = 14
_GOOD = {Kind.FIGURES: {0}, Kind.SUITE: {0, _OTHER_LOSSES}}


def measure(
    items: Sequence[Item],
    place: Place,
    say: Callable[[str], None],
    deadline: float | None = None,
) -> list[str]:
    """Measures each, and writes the pages after each.

    Args:
        items: in their order.
        place: the clone.
        say: is told what happens.
        deadline: of `time.monotonic`: nothing begins that would end behind it.

    Returns:
        What failed, each with the reason.

    Raises:
        KeyboardInterrupt: this process was told to end; what was finished is kept.
    """
    failures = []
    for number, item in enumerate(items, 1):
        row = item.row
        if deadline is not None and time.monotonic() + item.minutes * 60 > deadline:
            say(f"{row.name}: left out, as {item.minutes:.0f} minutes are more than are left")
            continue
        busy = busy_share()
        said = f"{number} of {len(items)}: {row.name}, about {item.minutes:.0f} min"
        say(f"{said}; other programs keep {busy:.0%} of the cores busy{_warning(row, busy)}")
        limit = 60 * max(_LEAST_LIMIT, _TIMES * item.minutes)
        try:
            say(f"  {_measured(row, place, limit)}")
        except NoResultError as error:
            failures.append(f"{row.name}: {error}")
            say(f"  failed: {error}")
    return failures


def measure_part(row: Row, place: Place, say: Callable[[str], None], seconds: float) -> list[str]:
    """Measures as much of a suite as there is time for; the next run goes on with it.

    Returns:
        What failed, with the reason.

    Raises:
        KeyboardInterrupt: this process was told to end.
    """
    say(f"{row.name}: as far as it gets in the {seconds / 60:.0f} minutes that are left")
    try:
        say(f"  {_measured(row, place, seconds)}")
    except TooLongError:
        say(f"  {rows_in(_file(row, 0, place))} rows are there; the next run goes on with them")
    except NoResultError as error:
        say(f"  failed: {error}")
        return [f"{row.name}: {error}"]
    return []


class TooLongError(NoResultError):
    """A command was ended at its limit."""


def _warning(row: Row, busy: float) -> str:
    return ", which its page will say: times are worse for it" * (row.is_timed and busy > BUSY)


def _measured(row: Row, place: Place, limit: float) -> str:
    """Measures a row with a limit in seconds for all of its commands; what is said of it."""
    before, began = rows_in(place.results / row.file), time.monotonic()
    log = place.logs / f"{row.name.replace('/', '-')}.log"
    log.unlink(missing_ok=True)
    went_on = row.kind is Kind.SUITE and _file(row, 0, place).exists()
    written, ended = [], []
    for number, command in enumerate(row.commands):
        path = _file(row, number, place)
        path.parent.mkdir(parents=True, exist_ok=True)
        if row.kind is Kind.FIGURES:
            # Else it might be of a run that ended before it had measured all.
            path.unlink(missing_ok=True)
        words = [*words_of(command, sys.executable), row.kind.value, str(path)]
        left = max(1.0, limit - (time.monotonic() - began))
        how = run_command(words, place.root, log, left)
        _check_status(row, how, log)
        written.append(path)
        ended.append(replace(how, went_on=went_on))
    try:
        with put_back(row, place):
            keep(row, written, ended, place)
            write_pages(place, log)
    except BaseException:
        # Some may have figures that were put back by now.
        write_pages(place, log)
        raise
    for path in written:
        path.unlink(missing_ok=True)
    after = rows_in(place.results / row.file)
    fewer = f"; before there were {before} rows: look at what its page says" * (after < before)
    return f"{row.file}, {after} rows, in {(time.monotonic() - began) / 60:.1f} min{fewer}"


def write_pages(place: Place, log: Path) -> None:
    """Writes the pages from the results that there are.

    Raises:
        NoResultError: they cannot be.
    """
    words = words_of(WRITE_PAGES, sys.executable)
    if run_command(words, place.root, log, _LEAST_LIMIT * 60).status != 0:
        raise NoResultError(f"pages cannot be written from what docs/results has: see {log}")


def _file(row: Row, number: int, place: Place) -> Path:
    """Where a command writes: those of a suite add to one file, and go on with it."""
    name = row.name.replace("/", "-")
    if row.kind is Kind.SUITE:
        return place.unfinished / f"{name}.jsonl"
    return place.unfinished / f"{name}-{number}.json"


def _check_status(row: Row, how: Ended, log: Path) -> None:
    if how.status is None:
        raise TooLongError(f"ended after {how.seconds / 60:.0f} min, far more than usual: {log}")
    if how.status not in _GOOD[row.kind]:
        raise NoResultError(f"its command ended with {how.status}; what it said is in {log}")
