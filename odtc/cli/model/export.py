"""`odtc export`: a PyTorch module to an ONNX file that trains as the module does."""

import argparse
import contextlib
import dataclasses
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from odtc.cli.console import aligned, emit, emit_json, say, stages
from odtc.cli.options import MANY, add_json_option, output_file, parse_axis
from odtc.cli.switches import Switch
from odtc.core.disk.files import check_writable
from odtc.core.disk.outputs import check_outputs
from odtc.core.errors import ExitCode, UsageError

if TYPE_CHECKING:
    import numpy as np

    from odtc.torch_export.export import ExportedModule

_INPUT_HINT = "write NAME=2x3x224x224, or NAME=2x16:int64 of another type than float32"


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Adds the command."""
    parser = subparsers.add_parser(
        "export",
        help="export a PyTorch module as a trainable ONNX file",
        description="Export a PyTorch module as an ONNX file that trains as the module does, "
        "with the names of its state_dict. The Python file is run, so it must be your own or one "
        "that you trust.",
        epilog="The file is compared with the module before it is written: see odtc.from_torch.",
    )
    parser.add_argument(
        "source",
        metavar="FILE.py:MAKE",
        help="your function that returns the module, or a pair of the module and example inputs: "
        "a tensor, a tuple, or a dictionary by keyword; or PACKAGE.MODULE:MAKE",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=output_file,
        metavar="OUT",
        help="ONNX file to write (default: stem of FILE, plus .onnx)",
    )
    parser.add_argument(
        "--input",
        type=parse_input,
        nargs="+",
        action="extend",
        default=[],
        metavar="NAME=DIMS",
        help="example inputs for the parameters of forward, if MAKE returns none: 2x3x224x224 "
        "for normal noise of this shape, 2x16:int64 for zeros",
    )
    for kind, said in {
        "input": "of those of forward's parameters",
        "output": "of the keys of a dictionary, or of output",
    }.items():
        parser.add_argument(
            f"--{kind}-names",
            nargs="+",
            metavar="NAME",
            help=f"names of the {kind}s, in place {said}",
        )
    axes = parser.add_mutually_exclusive_group()
    axes.add_argument(
        "--batch-axis",
        type=parse_axis,
        **MANY,
        default=[],
        metavar="NAME=AXIS",
        help="batch dimension of an input, none if it has no batch (default: 0)",
    )
    axes.add_argument(
        "--fixed-batch",
        action=Switch,
        help="fix the number of samples to that of the example inputs",
    )
    parser.add_argument(
        "--length-axis",
        type=parse_axis,
        **MANY,
        default=[],
        metavar="NAME=AXIS",
        help="dimension of an input to make symbolic as well, such as that of tokens, for `odtc "
        "compile --lengths` or `--shape length=N` (default: none)",
    )
    add_json_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Exports, and prints what the file holds."""
    from odtc.from_pytorch import from_torch, require_torch

    require_torch()
    output = args.output or Path(f"{_stem(args.source)}.onnx")
    _check_is_no_code(output, args.source)
    check_writable(output)
    with stages() as progress, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="from_torch: ")  # they are notes here
        progress("make the module")
        module, example = _made(args.source, dict(args.input))
        _check_is_no_code(output, args.source)
        progress("export it, and compare")
        exported = from_torch(
            module,
            example,
            output,
            input_names=args.input_names,
            output_names=args.output_names,
            batch_axis=None if args.fixed_batch else dict(args.batch_axis),
            length_axis=dict(args.length_axis),
        )
    for note in exported.notes:
        say(f"note: {note}")
    if args.json:
        emit_json({**dataclasses.asdict(exported), "path": str(exported.path)})
    else:
        emit(*_lines(exported))
    return ExitCode.OK


def parse_input(text: str) -> tuple[str, "np.ndarray"]:
    """Reads `NAME=2x3x224x224` or `NAME=2x16:int64`.

    Raises:
        UsageError: it has another form.
    """
    import numpy as np

    name, equals, rest = text.partition("=")
    sizes, _, kind = rest.partition(":")
    dims = sizes.split("x") if sizes else []
    try:
        dtype = np.dtype(kind or "float32")
    except TypeError:
        dtype = np.dtype(object)
    if (
        not name
        or not equals
        or dtype.kind not in "biuf"
        or not all(d.isdecimal() and int(d) for d in dims)
    ):
        raise UsageError(f"{text!r} is not an example input", hint=_INPUT_HINT)
    shape = tuple(map(int, dims))
    if dtype.kind != "f":
        return name, np.zeros(shape, dtype)
    return name, np.asarray(np.random.default_rng(0).standard_normal(shape), dtype)


def _check_is_no_code(output: Path, source: str) -> None:
    """Checks that the new file replaces no Python: the file that is named, or one it imported.

    Raises:
        UsageError: it would.
    """
    if not output.exists():
        return
    loaded = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    inputs = {
        "the file of the module": [source.rpartition(":")[0]],
        "a file of Python that is loaded": loaded,
    }
    check_outputs([output], inputs, "give the ONNX file a name of its own: -o MODEL.onnx")


def _stem(source: str) -> str:
    return Path(source.rpartition(":")[0] or source).stem.rpartition(".")[2]


def _made(source: str, given: dict[str, "np.ndarray"]) -> tuple[Any, Any]:
    """The module, and example inputs.

    Raises:
        UsageError: the user's code fails, or there are no example inputs, or two of them.
    """
    from torch import nn

    from odtc.torch_export.source import callable_of, failed

    # What the user's code prints is no data of this command.
    with contextlib.redirect_stdout(sys.stderr):
        make = callable_of(source)
        try:
            made = make if isinstance(make, nn.Module) else make()
        except Exception as error:
            raise failed(source.rpartition(":")[0], error) from error
    if isinstance(made, nn.Module):
        if not given:
            raise UsageError(
                "there are no example inputs",
                where=source,
                hint="return (module, example inputs), or give --input NAME=2x3x224x224",
            )
        return made, given
    if not (isinstance(made, tuple) and len(made) == 2 and isinstance(made[0], nn.Module)):
        raise UsageError(
            f"it returns {type(made).__name__}, not a module, or a module and example inputs",
            where=source,
            hint="return a torch.nn.Module, or (module, example inputs)",
        )
    if given:
        raise UsageError(
            "there are example inputs of the function, and --input",
            where=source,
            hint="leave out one of them",
        )
    return made


def _lines(exported: "ExportedModule") -> list[str]:
    weights = exported.weights
    rows = [
        *((f"input {name}", text) for name, text in exported.inputs.items()),
        *((f"output {name}", text) for name, text in exported.outputs.items()),
        ("parameters", len(weights.parameters)),
        ("buffers", len(weights.buffers) - len(weights.frozen)),
        *((("frozen parameters", len(weights.frozen)),) if weights.frozen else ()),
        *((f"tie {name}", f"is {first}") for name, first in weights.ties.items()),
        ("written by", f"PyTorch's exporter {exported.exporter}"),
    ]
    return [str(exported.path), *(f"  {line}" for line in aligned(rows))]
