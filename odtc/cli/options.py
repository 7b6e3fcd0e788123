"""Options that several commands share, and how their text is read."""

import argparse
import math
import os
from collections.abc import Callable
from pathlib import Path

from odtc.core.errors import UsageError

CORES_HELP = "bind each thread to a core: big, little (the slowest), all, or numbers such as 4,5"


def add_model_options(parser: argparse.ArgumentParser, *, is_needed: bool = True) -> None:
    """The model, the sizes of its symbolic dimensions, and the loss.

    Args:
        parser: of the command.
        is_needed: whether the command does nothing without a model.
    """
    nargs = None if is_needed else "?"
    parser.add_argument("model", nargs=nargs, metavar="MODEL", help="the ONNX file")
    parser.add_argument("--batch", type=int, metavar="N", help="samples in a step")
    parser.add_argument(
        "--shape",
        type=parse_shape,
        nargs="+",
        action="extend",
        default=[],
        metavar="NAME=N",
        help="sizes of symbolic dimensions other than the batch; or INPUT=2x3x48x192, those of all "
        "dimensions of an input",
    )
    add_batch_axis(
        parser,
        "the axis along which the samples of a batch lie in an input or an output, where the "
        "model does not show it; none for one that holds none",
    )
    parser.add_argument(
        "--set",
        type=parse_setting,
        nargs="+",
        action="extend",
        default=[],
        metavar="INPUT=VALUE",
        help="the value of an input that is then not fed: a number, or several with commas, such "
        "as sr=16000",
    )
    parser.add_argument(
        "--loss",
        nargs="+",
        default=["cross-entropy"],
        metavar="L",
        help="a loss, an ONNX file that computes it, or in-model; for several outputs "
        "OUTPUT=[WEIGHT*]LOSS of each (default: cross-entropy)",
    )


def output_file(text: str) -> Path:
    """The path of a file that is to be written.

    Raises:
        ArgumentTypeError: it names a folder.
    """
    if not text or text.endswith(os.sep):
        raise argparse.ArgumentTypeError(f"{text!r} names a folder, and no file")
    return Path(text)


def add_batch_axis(parser: argparse._ActionsContainer, said: str) -> None:
    """`--batch-axis`.

    Args:
        parser: of the command, or a group of it.
        said: what the axis means there.
    """
    parser.add_argument(
        "--batch-axis",
        type=parse_axis,
        nargs="+",
        action="extend",
        default=[],
        metavar="NAME=AXIS",
        help=said,
    )


def add_json_option(parser: argparse.ArgumentParser) -> None:
    """`--json`."""
    parser.add_argument("--json", action="store_true", help="print one JSON object on stdout")


def add_steps_per_call(parser: argparse.ArgumentParser) -> None:
    """`--steps-per-call`."""
    parser.add_argument(
        "--steps-per-call",
        type=at_least(1),
        default=1,
        metavar="K",
        help="steps that a device takes in one call, so that they do not wait for the link; it "
        "holds as many batches (default: 1)",
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
