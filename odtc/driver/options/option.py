"""A description of an option, as a field of a frozen dataclass.

    batch: int | None = option(None, optional(WHOLE), "samples in a step.", flag=Flag(...))

What a function takes, what it checks, what the command line has and what the pages say of it all
follow from that.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import Enum, auto
from typing import Any, TypeVar, cast

from odtc.core.options.arguments import read_argument
from odtc.core.options.kinds import Kind

T = TypeVar("T")


class Form(Enum):
    """How the words after a flag are read; `odtc/cli/compiling/step_options.py` has the readers."""

    TEXT = auto()
    WHOLE = auto()
    COUNT, COUNTS = auto(), auto()
    # On or off, without words after it: `--x` or `--no-x`.
    SWITCH = auto()
    # Several words, of which a second flag adds more.
    TEXTS = auto()
    SIZES, AXES, VALUES = auto(), auto(), auto()
    LOSSES, ADAPTERS, NORMALIZATION = auto(), auto(), auto()


@dataclass(frozen=True)
class Flag:
    """How the command line gives an option.

    Attributes:
        name: such as `--batch`.
        form: how its words are read.
        help: what `--help` says of it.
        metavar: what stands for its words in that; None for a switch.
    """

    name: str
    form: Form
    help: str
    metavar: str | None = None


@dataclass(frozen=True)
class Option:
    """An option.

    Attributes:
        name: of the field, and of the argument.
        annotation: its type, as the source has it.
        default: of both.
        kind: what it may be.
        docs: what it does, for the docstring of a function that takes it.
        flag: how the command line gives it; None where a command has a way of its own.
    """

    name: str
    annotation: str
    default: Any
    kind: Kind
    docs: str
    flag: Flag | None


def option(default: Any, kind: Kind, docs: str, flag: Flag | None = None) -> Any:
    """A field that is an option; see `Option` for the arguments."""
    return field(default=default, metadata={"kind": kind, "docs": docs, "flag": flag})


def options_of(table: type) -> tuple[Option, ...]:
    """The options of a dataclass, in their order."""
    return tuple(
        Option(each.name, str(each.type), each.default, **each.metadata) for each in fields(table)
    )


def kinds_of(table: type) -> Mapping[str, Kind]:
    """The kind of each option, by name."""
    return {each.name: each.kind for each in options_of(table)}


def checked(options: T, where: str) -> T:
    """The options with each value in its own type, as a function that takes them has them.

    Args:
        options: a dataclass of them.
        where: whose arguments they are.

    Raises:
        UsageError: one is of another kind.
    """
    given, kinds = arguments_of(options), kinds_of(type(options))
    read = {name: read_argument(kinds[name], given[name], name, where) for name in kinds}
    return replace(cast(Any, options), **read)


def arguments_of(options: Any) -> dict[str, Any]:
    """The values by name, as keyword arguments of a function that takes the options."""
    return {each.name: getattr(options, each.name) for each in fields(options)}
