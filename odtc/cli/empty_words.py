"""Empty words of a command line: mostly a variable of the shell that is not set."""

from collections.abc import Sequence
from itertools import takewhile

from odtc.core.errors import UsageError


def check_filled(words: Sequence[str]) -> None:
    """Checks that no word, and no value of an option, is an empty text.

    What follows `--` is for another program, and may be anything.

    Raises:
        UsageError: one is. A command would take some of them as if they were not given: a step for
            a phone would be trained here.
    """
    before = ""
    for word in takewhile(lambda each: each != "--", words):
        name, equals, value = word.partition("=")
        is_option = name.startswith("--")
        if not word or (is_option and equals and not value):
            said = name or (before if before.startswith("-") else "")
            raise UsageError(
                f"{said} is given an empty string" if said else "an argument is an empty string",
                hint="set the shell variable that it comes from, or leave it out",
            )
        before = word
