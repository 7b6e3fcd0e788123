"""Output of a command: data on stdout as plain text or JSON, everything else on stderr.

Text is never read as markup: a message may hold brackets. Nor does it reach a terminal as it
came: all that is printed goes through this file, where what would steer a terminal is escaped
(`odtc.core.printable`). Rich turns colour off where stderr is no terminal, and where NO_COLOR is
set.
"""

import errno
import functools
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from odtc.cli.spoken import spoken
from odtc.core.printable import printable, printable_lines
from odtc.core.process.progress import Progress

if TYPE_CHECKING:
    from rich.console import Console

# Where stderr is no terminal, a line of progress comes at most this often.
PLAIN_SECONDS = 5.0

Update = Callable[[int, str], None]


@functools.cache
def console() -> "Console":
    """The console on stderr."""
    from rich.console import Console

    class OnStderr(Console):
        def on_broken_pipe(self) -> None:
            # Rich would end the process, and let stdout go nowhere.
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))

    return OnStderr(stderr=True, highlight=False)


# What is to be said once work has begun.
_held: list[str] = []


def hold(lines: Iterable[str]) -> None:
    """Keeps messages for the first moment of work: an error before it says what they would."""
    _held[:] = lines


def say_held() -> None:
    """Says the messages that were kept."""
    lines, _held[:] = [*_held], []
    for line in lines:
        say(line)


def say(text: str, style: str = "") -> None:
    """One message on stderr."""
    from rich.text import Text

    say_held()
    with _heard():
        console().print(Text(printable_lines(spoken(text)), style), soft_wrap=True)


def print_error(text: str, label: str = "error") -> None:
    """An error on stderr."""
    from rich.text import Text

    hold(())
    said = Text.assemble((label, "bold red"), f": {printable_lines(spoken(text))}")
    with _heard():
        console().print(said, soft_wrap=True)


@contextmanager
def _heard() -> Iterator[None]:
    """A block that prints; a terminal or a reader that is gone keeps no work from its end."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.EPIPE:
            abandon(sys.stderr)
        elif error.errno != errno.EIO:
            raise


def abandon(stream: TextIO) -> None:
    """Lets what is still to be written go nowhere: nobody reads it, or there is no room for it."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    except (OSError, ValueError):  # it is closed, or no file at all
        return


def dump(text: str) -> None:
    """Many lines on stderr, as they come: they are wrapped or coloured by nobody."""
    with _heard():
        print(printable_lines(text), file=sys.stderr)


class ReaderGoneError(Exception):
    """Nobody reads what is written to stdout any more, as behind `| head`."""


@contextmanager
def writing() -> Iterator[None]:
    """A block that writes to stdout.

    A pipe to something else that breaks, as to a program that odtc has started, is another error.

    Raises:
        ReaderGoneError: nobody reads it.
    """
    try:
        yield
    except BrokenPipeError as error:
        abandon(sys.stdout)
        raise ReaderGoneError from error


def emit(*lines: str) -> None:
    """Data on stdout, each text as one line."""
    with writing():
        for line in lines:
            print(printable(line))


def emit_text(text: str) -> None:
    """Data on stdout that is for a program, as it is."""
    with writing():
        print(text, end="" if text.endswith("\n") else "\n")


def emit_json(data: object) -> None:
    """Data on stdout, as one JSON object."""
    with writing():
        print(json.dumps(data, indent=2))


def flush() -> None:
    """Lets the data on stdout go to who reads it; there may be no stdout."""
    if sys.stdout is not None:
        with writing():
            sys.stdout.flush()


def aligned(rows: Iterable[Sequence[object]]) -> list[str]:
    """Rows as lines of columns, each as wide as its widest cell."""
    cells = [[printable(str(cell)) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]


def readable_bytes(count: int) -> str:
    """A number of bytes with a unit, such as `1.5 MiB`."""
    size, units = float(count), ["B", "KiB", "MiB", "GiB"]
    while size >= 1024 and len(units) > 1:
        size, units = size / 1024, units[1:]
    return f"{size:.1f} {units[0]}" if units[0] != "B" else f"{count} B"


@contextmanager
def stages() -> Iterator[Progress]:
    """Yields what says the stage that long work is in: a spinner, or plain lines."""
    from rich.text import Text

    say_held()
    if not console().is_terminal:
        yield say
        return
    with console().status(Text("start")) as status:
        yield lambda stage: status.update(Text(printable(stage)))


@contextmanager
def progress_of(total: int, done: int, what: str = "step") -> Iterator[Update]:
    """Yields what takes the steps done and a remark: a bar, or a plain line now and then.

    Args:
        total: steps of the whole.
        done: those that were done before.
        what: a step is called.
    """
    say_held()
    if not console().is_terminal:
        yield _plain_progress(total, what)
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    remark = TextColumn("{task.fields[remark]}", markup=False)
    columns = (BarColumn(), MofNCompleteColumn(), remark, TimeRemainingColumn())
    with Bar(*columns, console=console()) as bar:
        task = bar.add_task("", total=total, completed=done, remark="")

        def update(step: int, text: str) -> None:
            with _heard():
                bar.update(task, completed=step, remark=printable(text))

        yield update


def _plain_progress(total: int, what: str) -> Update:
    last = time.monotonic()

    def update(step: int, text: str) -> None:
        nonlocal last
        if time.monotonic() - last >= PLAIN_SECONDS or step == total:
            last = time.monotonic()
            say(f"{what} {step} of {total}" + f": {text}" * bool(text))

    return update
