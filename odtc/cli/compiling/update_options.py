"""Options of `odtc compile` that say how gradients change the weights: fields of an `Update`."""

import argparse
from typing import TYPE_CHECKING

from odtc.cli.options import MANY, at_least, group_of

if TYPE_CHECKING:
    from odtc.frontend.optimizers.update import Update


def add_update_options(parser: argparse.ArgumentParser) -> None:
    """The optimizer, and what is around it."""
    add = parser.add_argument_group("parameter update").add_argument
    add(
        "--optimizer",
        default="sgd",
        metavar="O",
        help="optimizer, such as adamw{weight-decay=0.01} (default: sgd)",
    )
    add(
        "--groups",
        **MANY,
        default=[],
        metavar="G",
        help="options for some parameters, such as '*.bias{weight-decay=0,lr-factor=2}'; the "
        "first matching group applies",
    )
    clip = parser.add_mutually_exclusive_group()
    clip.add_argument(
        "--clip-norm", type=float, metavar="F", help="maximum norm of all gradients together"
    )
    clip.add_argument(
        "--clip-value", type=float, metavar="F", help="maximum magnitude of each gradient element"
    )
    add(
        "--accumulate",
        type=at_least(1),
        default=1,
        metavar="N",
        help="make one update every N steps, as if their batches were one: by the mean of their "
        "gradients, in which each label that is not ignored has the same weight (default: 1)",
    )
    add(
        "--ema",
        type=float,
        metavar="F",
        help="keep a moving average of the weights with this decay, such as 0.999",
    )
    add(
        "--loss-scale",
        metavar="S",
        help="loss scaling: dynamic, or dynamic{initial=65536,interval=2000}",
    )
    add(
        "--on-nonfinite",
        choices=("stop", "skip"),
        help="if the loss or a gradient is not finite, stop with an error or skip the update "
        "(default: stop; a loss scale implies skip, and rules out stop)",
    )


def read_update(args: argparse.Namespace) -> "Update":
    """The update that the options ask for.

    Raises:
        UsageError: an option is malformed, or has a value that is none.
    """
    # Imported here, for a quick `--help`.
    from odtc.frontend.optimizers.update import Update

    return group_of(Update, args)
