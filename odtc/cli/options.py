"""Options that several commands share, and how their text is read."""

import argparse
import math
import os
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from odtc.cli.console import say
from odtc.cli.switches import Switch
from odtc.core.errors import UsageError

if TYPE_CHECKING:
    from odtc.artifact import Artifact

T = TypeVar("T")

CORES_HELP = "bind each thread to a core: big, little (the slowest), all, or numbers such as 4,5"
# Several words after a flag; a second flag adds more.
MANY: dict[str, Any] = {"nargs": "+", "action": "extend"}


def group_of(kind: type[T], args: argparse.Namespace) -> T:
    """The options of a dataclass, of those that were read under the names of its fields."""
    return kind(**{each.name: getattr(args, each.name) for each in fields(cast(Any, kind))})


def output_file(text: str) -> Path:
    """The path of a file that is to be written.

    Raises:
        ArgumentTypeError: it names a folder.
    """
    if not text or text.endswith(os.sep):
        raise argparse.ArgumentTypeError(f"{text!r} names a folder, not a file")
    return Path(text)


def add_weights_folder(parser: argparse.ArgumentParser) -> None:
    """Adds the option for the folder of weights that an artifact leaves in a file."""
    parser.add_argument(
        "--weights-folder",
        type=Path,
        metavar="DIR",
        help="folder with the model's files, if the artifact was compiled with --weights-beside "
        "(default: the artifact's folder)",
    )


def load_artifact(path: str | os.PathLike[str], weights_folder: Path | None) -> "Artifact":
    """Reads an artifact, with the folder of weights that `add_weights_folder` added.

    Raises:
        ArtifactError: it is missing, damaged, or of another version.
    """
    # Imported here: it brings numpy.
    from odtc.artifact import HOLDS_ALL, load
    from odtc.core.artifact.beside import files_beside

    artifact = load(path, weights_folder)
    if weights_folder is not None and not files_beside(artifact._bundle):
        say(f"note: --weights-folder changes nothing: {HOLDS_ALL}")
    return artifact


def add_json_option(parser: argparse.ArgumentParser) -> None:
    """`--json`."""
    parser.add_argument("--json", action=Switch, help="print one JSON object to stdout")


def add_steps_per_call(parser: argparse.ArgumentParser) -> None:
    """`--steps-per-call`."""
    parser.add_argument(
        "--steps-per-call",
        type=at_least(1),
        default=1,
        metavar="K",
        help="steps that a device takes per call, so that they do not wait for the link; it "
        "holds this many batches (default: 1)",
    )


def at_least(bound: int, most: float = math.inf) -> Callable[[str], int]:
    """A reader of whole numbers from `bound` on, for argparse."""
    said = f"of at least {bound}" if most == math.inf else f"from {bound} to {most}"

    def read(text: str) -> int:
        if not text.isdecimal() or not bound <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number {said}")
        return int(text)

    return read


def parse_shape(text: str) -> tuple[str, int | tuple[int, ...]]:
    """Reads `NAME=N`, or `INPUT=NxN` with the sizes of all dimensions.

    Raises:
        UsageError: it has another form, or a size is below 1.
    """
    name, _, sizes = text.rpartition("=")
    parts = sizes.split("x")
    if not name or not all(part.isdecimal() and int(part) >= 1 for part in parts):
        raise UsageError(
            f"{text!r} is not the size of a dimension",
            hint="write NAME=N, such as sequence=128, or INPUT=2x3x48x192",
        )
    found = [int(part) for part in parts]
    return name, found[0] if len(found) == 1 else tuple(found)


def parse_axis(text: str) -> tuple[str, int | None]:
    """Reads `NAME=AXIS`, or `NAME=none`.

    Raises:
        UsageError: it has another form.
    """
    name, _, axis = text.rpartition("=")
    if not name or not (axis == "none" or axis.removeprefix("-").isdecimal()):
        raise UsageError(
            f"{text!r} is not the batch axis of an input or output",
            hint="write NAME=AXIS, such as y=1, or NAME=none",
        )
    return name, None if axis == "none" else int(axis)


def parse_setting(text: str) -> tuple[str, bool | float | list[bool | float]]:
    """Reads `INPUT=VALUE`, or `INPUT=VALUE,VALUE`.

    Raises:
        UsageError: it has another form.
    """
    name, _, values = text.rpartition("=")
    try:
        found = [_number(value) for value in values.split(",")]
    except ValueError:
        found = []
    if not name or not found:
        raise UsageError(
            f"{text!r} is not the value of an input",
            hint="write INPUT=NUMBER, such as sr=16000, or INPUT=NUMBER,NUMBER",
        )
    return name, found if len(found) > 1 else found[0]


def _number(text: str) -> bool | float:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        return int(text)
    except ValueError:
        return float(text)
