"""Options that were given twice: the last one counts, as scripts rely on, and a note says so."""

import argparse
from collections.abc import Sequence

from odtc.cli.parser_tree import actions_of, command_in


def repeated_notes(parser: argparse.ArgumentParser, words: Sequence[str]) -> list[str]:
    """What is to be said of options that have more than one value, of which one is left out.

    Args:
        parser: of all commands.
        words: as they were given.
    """
    _, leaf = command_in(parser, words)
    end = words.index("--") if "--" in words else len(words)
    # What adds to a list is no such option.
    kept = {
        name: action
        for action in actions_of(leaf)
        if isinstance(action, argparse._StoreAction)
        for name in action.option_strings
    }
    given: dict[str, list[str]] = {}
    for at, word in enumerate(words[:end]):
        name, sign, value = word.partition("=")
        if action := kept.get(name):
            values = [value] if sign else _values(words[at + 1 : end], action.nargs)
            given.setdefault(action.option_strings[-1], []).append(" ".join(values))
    return [
        f"{name} is given {len(values)} times, and only the last counts: {values[-1]}"
        for name, values in given.items()
        if len({*values}) > 1
    ]


def _values(words: Sequence[str], count: int | str | None) -> Sequence[str]:
    """The words that an option takes: one, so many, or all up to the next option."""
    if isinstance(count, str):
        count = next((n for n, word in enumerate(words) if word.startswith("--")), len(words))
    return words[: 1 if count is None else count]
