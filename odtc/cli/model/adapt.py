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
        help="put a head for other classes on a model",
        description="Replaces the layer that gives a classifier's scores by one for other classes, "
        "with new values as PyTorch initialises such a layer, and says what it did.",
    )
    add = parser.add_argument
    add("model", metavar="MODEL", help="the ONNX file")
    add("--classes", type=at_least(1), required=True, metavar="N", help="scores of the new head")
    add("-o", "--output", type=output_file, required=True, metavar="OUT", help="the new ONNX file")
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--of",
        metavar="OUTPUT",
        help="the output whose classifier is replaced (default: the first that has one)",
    )
    where.add_argument(
        "--at",
        metavar="TENSOR",
        help="cut at this tensor of features, and put a pooling, if it has places, and a dense "
        "layer after it",
    )
    add(
        "--freeze-backbone",
        action=Switch,
        help="let the file say that all parameters but those of the head are frozen",
    )
    add("--seed", type=int, default=0, metavar="N", help="of the new values (default: 0)")
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
