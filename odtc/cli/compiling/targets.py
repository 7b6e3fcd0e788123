"""`odtc targets`: what odtc compiles for."""

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from odtc.cli.console import aligned, emit, emit_json, readable_bytes
from odtc.cli.options import add_json_option
from odtc.core.errors import ExitCode

if TYPE_CHECKING:
    from odtc.backends.gpu.machine import Gpu

# Fields of a GPU that a kernel is written with.
_OF_KERNELS = ("decisions", "multiplies_half")


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Adds the command."""
    parser = subparsers.add_parser(
        "targets",
        help="list the targets",
        description="List the targets, with the reason if one is not available; then the GPUs "
        "that the target option gpu can name, as in android-opencl{gpu=adreno-640}. The option "
        "mcpu names one core, or several from which the native runtime chooses on the device, as "
        "in android-cpu{mcpu=cortex-a55+cortex-a53}; TVM runs the kernels of the first.",
    )
    add_json_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Prints the targets."""
    from odtc.backends.gpu.known import GPUS
    from odtc.backends.targets import targets

    if args.json:
        emit_json(
            {
                "targets": [
                    {
                        "name": target.name,
                        "description": target.description,
                        "available": target.available_from is None,
                        "reason": target.available_from,
                    }
                    for target in targets()
                ],
                "gpus": [{"name": name, **_described(gpu)} for name, gpu in GPUS.items()],
            }
        )
    else:
        emit(*aligned((t.name, t.available_from or "available", t.description) for t in targets()))
        emit("", *aligned((f"gpu={name}", *_shape(gpu)) for name, gpu in GPUS.items()))
    return ExitCode.OK


def _described(gpu: "Gpu") -> dict[str, Any]:
    """Describes a GPU, without what kernels are only told when they are written."""
    known = asdict(gpu) | {"half": sorted(gpu.half)}
    return {name: value for name, value in known.items() if name not in _OF_KERNELS}


def _shape(gpu: "Gpu") -> tuple[str, str]:
    """Describes the limits and preferences of a GPU in words."""
    items = f"groups of {gpu.group} items, at most {gpu.most_items:,}"
    matrices = "; matrices of float16 through Vulkan" if gpu.subgroup else ""
    return items, f"that share {readable_bytes(gpu.local_bytes)}{matrices}"
