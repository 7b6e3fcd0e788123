"""Options that say what is trained."""

import argparse


def add_selection_options(parser: argparse.ArgumentParser) -> None:
    """What is trained, and what is frozen."""
    parser.add_argument(
        "--train",
        nargs="+",
        action="extend",
        metavar="WHAT",
        help="globs over ONNX initializers, bias, last{k=2} or sparse{layers=GLOB,channels=0.25}; "
        "the others are frozen (default: *)",
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
