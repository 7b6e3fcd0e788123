"""The command line: see the package."""

import argparse
import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence

from rich import box
from rich.table import Table

import benchmarks.results as package
from benchmarks.output import terminal
from benchmarks.results.choice import ChoiceError, Item, fitting, items_of, named, to_measure
from benchmarks.results.keeping import NoResultError
from benchmarks.results.measuring import measure, measure_part, write_pages
from benchmarks.results.place import Age, Place
from benchmarks.results.table import ROWS, Kind, Row, spelled
from odtc.cli.measuring.tune import seconds_of
from odtc.comparison.measures.measure import SOURCES
from odtc.core.disk.locks import take_lock

# Seconds in which a suite may get a row or more.
_WORTH_IT = 120
# Minutes from which on a time is told in hours.
_IN_HOURS = 90
# Files that are named of those that differ.
_SHOWN = 5


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.results",
        description=(package.__doc__ or "").splitlines()[0],
        epilog="What is of this commit and this machine already is not measured again.",
    )
    add = parser.add_argument
    add("--list", action="store_true", help="say what there is, how old and how long, and end")
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument(
        "--only", nargs="+", metavar="NAME", help="these alone, such as performance/demo"
    )
    chosen.add_argument("--readme", action="store_true", help="what README.md shows alone")
    add("--again", action="store_true", help="also what is of this commit and machine already")
    add("--for", dest="time", type=_time, metavar="T", help="as many as fit, such as 40min")
    return parser


def _time(text: str) -> float:
    """Seconds, of a time such as `40min` or `2h`."""
    return seconds_of(text.replace("min", "m"))


def differing(place: Place) -> list[str]:
    """Files that differ from the commit, or that it does not have, of those that are measured."""
    command = ["git", "-C", str(place.root), "status", "--porcelain", "--", *SOURCES]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [line[3:] for line in done.stdout.splitlines()]


def table_of(items: Sequence[Item]) -> Table:
    """A row for each file: how old it is, how long it takes, and by which command."""
    table = Table("file", "of", "kernels", "min", box=box.SIMPLE)
    table.add_column("by", overflow="fold")
    for each in items:
        age, row = each.age, each.row
        said = "this commit" if age.is_current else f"{age.date} {' '.join(age.commits)}"
        said += f", {_beside(age)}" * age.is_disturbed
        kernels = {None: "unknown", True: "changed", False: "the same"}[age.kernels_changed]
        how = f"not here: {row.by_hand}" if row.by_hand else "\n".join(map(spelled, row.commands))
        minutes = "" if row.by_hand else f"{each.minutes:.0f}"
        name = f"{row.file}{', README' * row.is_of_readme}"
        table.add_row(name, said if age.date else "no file", kernels, minutes, how)
    return table


def main(
    argv: Sequence[str] | None = None, rows: Sequence[Row] = ROWS, place: Place | None = None
) -> int:
    """Measures; returns the exit status: 1 where a command failed, 2 where none began."""
    parser = _parser()
    options, place = parser.parse_args(argv), place or Place()
    console = terminal(160)
    items = items_of(rows, place)
    if options.readme:
        items = [each for each in items if each.row.is_of_readme]
    try:
        items = named(items, options.only) if options.only else items
    except ChoiceError as error:
        parser.error(str(error))
    if options.list:
        left = to_measure(items, again=options.again)
        kept = fitting(left, options.time / 60) if options.time else items
        total = _how_long([each for each in left if each in kept])
        console.print(table_of(kept), f"{total} to measure", sep="")
        return 0
    if not place.commit:
        parser.error(f"figures are of a commit: {place.root} is no clone that git knows")
    if found := differing(place):
        named_files = ", ".join(found[:_SHOWN]) + ", ..." * (len(found) > _SHOWN)
        parser.error(
            f"figures are of a commit, and {_files(len(found))} not as in it: {named_files}. "
            "Commit them, or put them away (git stash -u); docs/ and *.md may differ"
        )
    place.logs.mkdir(parents=True, exist_ok=True)
    with (place.logs / "lock").open("w") as lock:
        try:
            take_lock(lock.fileno())
        except BlockingIOError:
            parser.error(f"another one measures in {place.root}: two would disturb each other")
        try:
            write_pages(place, place.logs / "pages.log")
        except NoResultError as error:
            parser.error(f"before anything was measured: {error}")
        return _measure(items, place, options.time, again=options.again)


def _files(count: int) -> str:
    return "1 file is" if count == 1 else f"{count} files are"


def _how_long(items: Sequence[Item]) -> str:
    minutes = sum(each.minutes for each in items)
    time = f"{minutes:.0f} min" if minutes < _IN_HOURS else f"{minutes / 60:.1f} hours"
    return f"{len(items)} file{'s' * (len(items) != 1)}, about {time}"


def _beside(age: Age) -> str:
    return f"beside other programs, {age.busy:.0%}"


def _measure(items: Sequence[Item], place: Place, seconds: float | None, *, again: bool) -> int:
    chosen, part = to_measure(items, again=again), None
    here = sum(not each.row.by_hand for each in items)
    if here > len(chosen):
        say(f"{_files(here - len(chosen))} of this commit and machine already")
    if seconds is not None:
        fit = fitting(chosen, seconds / 60)
        left = [each for each in chosen if each not in fit]
        if left:
            say(f"no time for all of {', '.join(each.row.name for each in left)}")
        chosen = fit
        # A suite goes on where it was; so it gets the time that is left at the end.
        part = next((each.row for each in left if each.row.kind is Kind.SUITE), None)
    say(f"{_how_long(chosen)}, of commit {place.commit}; what they say is in {place.logs}")
    deadline = None if seconds is None else time.monotonic() + seconds
    with _told_to_end() as told:
        try:
            failures = measure(chosen, place, say, deadline)
            if part and deadline and (seconds_left := deadline - time.monotonic()) > _WORTH_IT:
                failures += measure_part(part, place, say, seconds_left)
        except KeyboardInterrupt:
            say("ended before its time: what was finished is kept, and the same command goes on")
            return 128 + (told[0] if told else signal.SIGINT)
    say(*(f"failed: {each}" for each in failures))
    for each in items:
        age = place.age(each.row)
        if age.is_current and age.is_disturbed:
            name = each.row.name
            say(f"{name}: {_beside(age)}; on an idle machine, --again --only {name} mends that")
    by_hand = [each.row.name for each in items if each.row.by_hand]
    if by_hand:
        say(f"not measured here, as --list says why: {', '.join(by_hand)}")
    return int(bool(failures))


@contextlib.contextmanager
def _told_to_end() -> Iterator[list[int]]:
    """Ends the block as by Ctrl-C when another signal says so; the list gets which."""
    told: list[int] = []

    def end(number: int, _: object) -> None:
        told.append(number)
        raise KeyboardInterrupt

    before = {each: signal.signal(each, end) for each in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield told
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def say(*lines: str) -> None:
    """Tells how far it is."""
    for line in lines:
        print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
