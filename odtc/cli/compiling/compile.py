"""`odtc compile`: an ONNX model to an artifact that holds its training step."""

import argparse
import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

from odtc.backends.targets import parse_target
from odtc.cli.compiling.ir_options import add_ir_option, printed_after
from odtc.cli.compiling.step_options import add_step_options, check_is_not_read, step_options
from odtc.cli.console import emit, emit_json, readable_bytes, say
from odtc.cli.model.inspect import counts, describe
from odtc.cli.options import add_json_option, output_file
from odtc.core.disk.files import check_writable
from odtc.core.errors import ExitCode
from odtc.driver.options.option import arguments_of

if TYPE_CHECKING:
    from odtc.core.artifact.manifest import Manifest


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Adds the command."""
    parser = subparsers.add_parser(
        "compile",
        help="compile a model into a training step",
        description="Compile an ONNX inference model into a training step for a target.",
    )
    add_step_options(parser)
    parser.add_argument(
        "--memory-budget",
        metavar="BYTES",
        help="memory that a step may use in addition to parameters and optimizer state, such as "
        "64MiB: to fit, it recomputes tensors or splits the batch into micro-batches (see `odtc "
        "plan`); auto: make several plans that a run can switch between",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=output_file,
        metavar="OUT",
        help="artifact to write (default: stem of MODEL, plus .odtc)",
    )
    parser.add_argument(
        "--device",
        metavar="URL",
        help="device that the step is for (see `odtc profile`); its own measurements by `odtc "
        "tune` take precedence over those of its family",
    )
    add_ir_option(parser, "--print-ir-after")
    add_json_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Compiles, and prints the path of the artifact."""
    options = step_options(args)
    output = args.output or Path(f"{Path(args.model).stem}.odtc")
    hint = "give the artifact a name of its own: -o MODEL.odtc"
    check_is_not_read(output, args.model, options, hint)
    check_writable(output)
    with printed_after(args.print_ir_after) as progress:
        # Imported here, where a spinner turns.
        progress("look for the step")
        from odtc.driver.entry_points import compile_model

        target = parse_target(args.target)
        options = dataclasses.replace(options, device=args.device)
        artifact = compile_model(
            args.model,
            target,
            memory_budget=args.memory_budget,
            progress=progress,
            **arguments_of(options),
        )
        progress("write the artifact")
        artifact.save(output)
    _summarise(artifact.manifest)
    if args.json:
        emit_json(describe(artifact.manifest, output))
    else:
        emit(str(output))
    return ExitCode.OK


def _summarise(manifest: "Manifest") -> None:
    sizes, tensors = manifest.sizes, counts(manifest)
    say(
        f"compiled for {manifest.target}, batch {manifest.batch}: "
        f"{tensors['trained']} of {sum(tensors.values())} weight tensors are trained; "
        f"parameters {readable_bytes(sizes.parameters)}, "
        f"optimizer state {readable_bytes(sizes.optimizer)}, "
        f"arena {readable_bytes(sizes.train_step)}"
    )
    for item in manifest.coded:
        if item.error:
            say(f"quantized: {item.weight}, error {item.error:.2%}")
    for note in manifest.notes:
        say(f"note: {note}")
