"""Values of options that several benchmarks take."""

import argparse
from collections.abc import Iterable, Sequence


def listed(text: str, known: Sequence[str], what: str) -> list[str]:
    """The names in a list joined by commas, as they are known and each once, or `all` of them.

    Raises:
        ArgumentTypeError: there is no such name.
    """
    if text == "all":
        return list(known)
    found = {name.lower(): name for name in known}
    for name in text.split(","):
        if name.lower() not in found:
            raise argparse.ArgumentTypeError(f"no {what} {name!r}; there are {', '.join(known)}")
    return list(dict.fromkeys(found[name.lower()] for name in text.split(",")))


def positive(text: str) -> int:
    """A number from 1.

    Raises:
        ArgumentTypeError: it is none.
    """
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number")
    return int(text)


# How large a step is, and how it is taken.
_SIZES = {"--batch": "samples in a step", "--threads": "worker threads of a step"}


def add_sizes(parser: argparse.ArgumentParser, **usual: int) -> None:
    """Adds `--batch` or `--threads`, or both, each with what is usual for a benchmark."""
    for name, number in usual.items():
        said = f"{_SIZES[f'--{name}']} (default: {number})"
        parser.add_argument(f"--{name}", type=positive, default=number, metavar="", help=said)


def add_cases(parser: argparse.ArgumentParser, models: Iterable[str]) -> None:
    """Adds `--models`, all of some by default, and `--threads`, several numbers of them."""
    names = [*models]
    parser.add_argument("--models", nargs="*", default=names, choices=names)
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
