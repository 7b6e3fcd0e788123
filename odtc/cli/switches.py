"""Options that are on or off: `--x` and `--no-x`, of which the last one given counts.

argparse's `BooleanOptionalAction` would fill help and usage with both spellings; here they are one,
`--[no-]x`, and either has values other than true and false where a command wants such.
"""

import argparse
from collections.abc import Sequence
from typing import Any

from odtc.cli.parser_tree import long_name


class Switch(argparse.Action):
    """An option without words after it.

    Attributes:
        on: its value where `--x` is given.
        off: its value where `--no-x` is.
        stands: its value where neither is.

    Args:
        option_strings: its names, each as `--x`.
        dest: where its value is kept.
        on: see above.
        off: see above.
        stands: see above; `off` by default.
        default: what the parser takes for it, where that leaves out what is not given.
        help: as argparse has it.
    """

    def __init__(
        self,
        option_strings: Sequence[str],
        dest: str,
        *,
        on: Any = True,
        off: Any = False,
        stands: Any = None,
        default: Any = None,
        help: str | None = None,
    ) -> None:
        self.on, self.off = on, off
        self.stands = off if stands is None else stands
        names = [*option_strings, *(f"--no-{name.removeprefix('--')}" for name in option_strings)]
        given = self.stands if default is None else default
        super().__init__(names, dest, nargs=0, default=given, help=help)

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        """Keeps its value."""
        is_off = option_string and is_negative(option_string.removeprefix("--"), self)
        setattr(namespace, self.dest, self.off if is_off else self.on)

    def format_usage(self) -> str:
        """Both of its names as one."""
        return f"--[no-]{self.option_strings[0].removeprefix('--')}"


def is_negative(name: str, action: argparse.Action) -> bool:
    """Whether a name without its dashes is that by which a switch is turned off."""
    names = action.option_strings
    return isinstance(action, Switch) and f"--{name}" in names[len(names) // 2 :]


def name_for(action: argparse.Action, value: Any) -> str:
    """The name of an option without its dashes; of a switch the one that gives the value."""
    name = long_name(action)
    return f"no-{name}" if isinstance(action, Switch) and value is action.off else name


class Help(argparse.RawDescriptionHelpFormatter):
    """Help that has the two names of a switch as one."""

    def _format_action_invocation(self, action: argparse.Action) -> str:
        if isinstance(action, Switch):
            return action.format_usage()
        return super()._format_action_invocation(action)
