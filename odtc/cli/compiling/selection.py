"""Options that say what is trained."""

import argparse

from odtc.core.options.option_text import LORA_FORM


def add_selection_options(parser: argparse.ArgumentParser) -> None:
    """What is trained, what is frozen, and adapters."""
    parser.add_argument(
        "--train",
        nargs="+",
        action="extend",
        metavar="WHAT",
        help="globs over ONNX initializers, bias, last{k=2} or sparse{layers=GLOB,channels=0.25}; "
        "the others are frozen (default: *, or with --lora the adapters alone)",
    )
    parser.add_argument(
        "--freeze",
        nargs="+",
        action="extend",
        default=[],
        metavar="WHAT",
        help="what not to train, whatever --train says",
    )
    parser.add_argument(
        "--freeze-batch-norm",
        action="store_true",
        help="batch normalisations whose parameters are frozen keep and use their running "
        "statistics",
    )
    parser.add_argument(
        "--lora", metavar="OPTIONS", help=f"train low-rank adapters, such as {LORA_FORM}"
    )
