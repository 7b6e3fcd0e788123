"""Options that several commands share, and how their text is read."""

import argparse
from collections.abc import Callable

from odtc.core.errors import UsageError

CORES_HELP = "bind each thread to a core: big, little (the slowest), all, or numbers such as 4,5"


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """The model, the sizes of its symbolic dimensions, and the loss."""
    parser.add_argument("model", metavar="MODEL", help="the ONNX file")
    parser.add_argument("--batch", type=int, metavar="N", help="samples in a step")
    parser.add_argument(
        "--shape",
        type=parse_size,
        nargs="+",
        action="extend",
        default=[],
        metavar="NAME=N",
        help="sizes of symbolic dimensions other than the batch",
    )
    parser.add_argument(
        "--loss",
        nargs="+",
        default=["cross-entropy"],
        metavar="L",
        help="a loss, an ONNX file that computes it, or in-model; for several outputs "
        "OUTPUT=[WEIGHT*]LOSS of each (default: cross-entropy)",
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


def at_least(bound: int) -> Callable[[str], int]:
    """A reader of whole numbers from `bound` on, for argparse."""

    def read(text: str) -> int:
        if not text.isdecimal() or int(text) < bound:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least {bound}")
        return int(text)

    return read


def parse_size(text: str) -> tuple[str, int]:
    """Reads `NAME=N`.

    Raises:
        UsageError: it has another form, or the size is below 1.
    """
    name, _, size = text.rpartition("=")
    if not name or not size.isdecimal() or int(size) < 1:
        raise UsageError(
            f"{text!r} is not the size of a dimension", hint="write NAME=N, such as sequence=128"
        )
    return name, int(size)
