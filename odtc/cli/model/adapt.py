"""`odtc adapt`: a model with a head for other classes."""

import argparse
import dataclasses

from odtc.cli.console import emit, emit_json, say
from odtc.cli.options import add_json_option, at_least, output_file
from odtc.cli.switches import Switch
from odtc.core.disk.files import check_writable
from odtc.core.errors import ExitCode


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Adds the command."""
    parser = subparsers.add_parser(
        "adapt",
        help="replace a classifier's head with one for other classes",
        description="Replace the layer that computes a classifier's scores with one for other "
        "classes, initialised as PyTorch initialises such a layer, and report what was done.",
    )
    add = parser.add_argument
    add("model", metavar="MODEL", help="ONNX file of the model")
    add(
        "--classes",
        type=at_least(1),
        required=True,
        metavar="N",
        help="number of classes of the new head",
    )
    add("-o", "--output", type=output_file, required=True, metavar="OUT", help="ONNX file to write")
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--of",
        metavar="OUTPUT",
        help="output whose classifier is replaced (default: the first that has one)",
    )
    where.add_argument(
        "--at",
        metavar="TENSOR",
        help="cut the model after this feature tensor, and append pooling, if the tensor has "
        "spatial dimensions, and a linear layer",
    )
    add(
        "--freeze-backbone",
        action=Switch,
        help="mark all parameters except those of the head as frozen in the file",
    )
    add("--seed", type=int, default=0, metavar="N", help="seed of the new weights (default: 0)")
    add_json_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Writes the model, and prints its path."""
    from odtc.heads import replace_head

    check_writable(args.output)
    head = replace_head(
        args.model,
        args.classes,
        args.output,
        of=args.of,
        at=args.at,
        freeze_backbone=args.freeze_backbone,
        seed=args.seed,
    )
    for line in head.said:
        say(line)
    if args.json:
        emit_json({"path": str(args.output), **dataclasses.asdict(head)})
    else:
        emit(str(args.output))
    return ExitCode.OK
