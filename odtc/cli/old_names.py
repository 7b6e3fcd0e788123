"""Options that had another name: the old one is taken, and a note has the new one."""

import argparse
from collections.abc import Sequence

from odtc.cli.parser_tree import actions_of, command_in, long_names

# Without their dashes, as an options file has them. No command has an option by an old name.
OLD_NAMES = {"metric": "metrics", "group": "groups"}


def new_name(name: str, parser: argparse.ArgumentParser) -> str:
    """The name that an option of a command has now."""
    known = {each for action in actions_of(parser) for each in long_names(action)}
    return OLD_NAMES[name] if OLD_NAMES.get(name) in known else name


def by_new_names(
    parser: argparse.ArgumentParser, words: Sequence[str]
) -> tuple[list[str], list[str]]:
    """A command line by the names that its options have now.

    Args:
        parser: of all commands.
        words: as they were given.

    Returns:
        The words, and a note for each old name.
    """
    _, leaf = command_in(parser, words)
    end = words.index("--") if "--" in words else len(words)
    found, notes = [*words], []
    for at, word in enumerate(words[:end]):
        name, sign, value = word.partition("=")
        if not name.startswith("--"):
            continue
        new = new_name(name.removeprefix("--"), leaf)
        if name != f"--{new}":
            found[at] = f"--{new}{sign}{value}"
            notes.append(renamed_note(name, f"--{new}"))
    return found, notes


def renamed_note(old: str, new: str) -> str:
    """What is said of an old name."""
    return f"{old} is an old name: write {new}"
