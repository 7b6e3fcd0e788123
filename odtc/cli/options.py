"""Options that several commands share, and how their text is read."""

import argparse
import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING

from odtc.core.errors import UsageError
from odtc.core.option_text import parse_options

if TYPE_CHECKING:
    from odtc.frontend.optimizers import Optimizer

OPTIMIZER_FORM = "sgd{momentum=0.9,weight_decay=1e-4}"


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


def parse_optimizer(text: str) -> "Optimizer":
    """Reads `sgd` or `sgd{momentum=0.9,weight_decay=1e-4}`.

    Raises:
        UsageError: the text is malformed, or names an optimizer, an option or a value that is none.
    """
    from odtc.frontend.optimizers import OPTIMIZERS

    try:
        name, options = parse_options(text)
    except ValueError as error:
        raise UsageError(
            f"cannot read the optimizer: {error}", hint=f"write sgd or {OPTIMIZER_FORM}"
        ) from error
    if name not in OPTIMIZERS:
        raise UsageError(f"unknown optimizer {name!r}", hint=f"one of: {', '.join(OPTIMIZERS)}")
    known = [field.name for field in dataclasses.fields(OPTIMIZERS[name])]
    unknown = [key for key in options if key not in known]
    if unknown:
        raise UsageError(
            f"the optimizer {name} has no option {unknown[0]!r}",
            hint=f"its options are {', '.join(known)}",
        )
    return OPTIMIZERS[name](**{key: _number(key, value) for key, value in options.items()})


def _number(key: str, value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise UsageError(f"the optimizer's option {key} is {value!r}, which is no number") from None
