"""Every error that a user can cause: its kind, its exit code and its whole text.

One table, in three files and that of passes, says how to cause each, and errors.txt what must come
of it. Each is caused through the command line, or through the library where there is no such
option; either way it must be a clear text without a traceback, and leave no file behind.
"""

import gc
import re
from pathlib import Path

import pytest

from odtc.cli.main import main
from odtc.core.errors import OdtcError, error_kinds
from tests.errors.place import Cause, Place
from tests.errors.tables.of_models import OF_MODELS
from tests.errors.tables.of_options import OF_OPTIONS
from tests.errors.tables.of_passes import OF_PASSES
from tests.errors.tables.of_runs import OF_RUNS

CAUSES: dict[str, Cause] = {**OF_MODELS, **OF_OPTIONS, **OF_RUNS, **OF_PASSES}


ENTRY = re.compile(r"\[(?P<id>.+)\] (?P<kind>\w+), exit (?P<code>\d+)\n(?P<text>(?:.+\n)+)")
KINDS = {kind.__name__: kind for kind in error_kinds()}
EXPECTED = {
    match["id"]: match
    for match in ENTRY.finditer((Path(__file__).parent / "errors.txt").read_text("utf-8"))
}


def outcome(cause: Cause, place: Place, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """The exit code and the text of the error."""
    try:
        argv = cause(place)
    except OdtcError as error:
        return error.exit_code, str(error)
    assert argv is not None, "nothing went wrong"
    code = main(argv)
    captured = capsys.readouterr()
    assert not captured.out
    assert "Traceback" not in captured.err
    # Who runs a command has no object of Python; an option is named beside it.
    assert "trainer." not in captured.err or "--" in captured.err
    return code, captured.err.partition("error: ")[2].rstrip("\n")


def matches(expected: str, text: str) -> bool:
    """Whether a text is as expected, where `…` is anything within a line."""
    return bool(re.fullmatch(".*".join(map(re.escape, expected.split("…"))), text))


def test_each_cause_has_its_text_and_each_kind_its_cause():
    assert list(EXPECTED) == list(CAUSES)
    assert {match["kind"] for match in EXPECTED.values()} == KINDS.keys()


@pytest.mark.parametrize("name", CAUSES)
def test_error(name: str, place: Place, capsys: pytest.CaptureFixture[str]):
    expected = EXPECTED[name]
    code, text = outcome(CAUSES[name], place, capsys)
    for value, stand_in in place.names():
        text = text.replace(value, stand_in)
    assert code == int(expected["code"]) == KINDS[expected["kind"]].exit_code
    assert matches(expected["text"].rstrip("\n"), text), text
    collect_where_files_are_left(place)
    assert not place.files_left()


def collect_where_files_are_left(place: Place) -> None:
    """A bundle's folder goes with it, which cycles may hold: those of young objects are first.

    To look at all objects takes longer than to cause most errors.
    """
    for generation in range(3):
        if not place.files_left():
            return
        gc.collect(generation)
