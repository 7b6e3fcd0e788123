"""`odtc opt`: runs passes over a training step, and shows what they make of it."""

import argparse
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from odtc.backends.targets import parse_target
from odtc.cli.compiling.ir_options import add_ir_option, printed_after
from odtc.cli.compiling.step_options import add_step_options, check_is_not_read, step_options
from odtc.cli.console import emit, emit_json, stages
from odtc.cli.options import output_file
from odtc.cli.switches import Switch
from odtc.core.disk.files import atomic_write, check_writable
from odtc.core.errors import ExitCode, UsageError

if TYPE_CHECKING:
    import tvm

# Where descriptions begin.
_COLUMN = 28


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Adds the command."""
    parser = subparsers.add_parser(
        "opt",
        help="run passes over a training step and print the result",
        description="Build the training graph of a model, run passes over it, and print the "
        "module as TVMScript. Nothing is compiled.",
        epilog="Passes are written as in LLVM's opt, separated by commas and with options in\n"
        "braces: absorb-transpose,fuse-named{most=64}. TVM's own passes that need no arguments\n"
        "can be named, too, such as tvm.FuseTIR.",
    )
    add_step_options(parser, needs_model=False)
    group = parser.add_argument_group("passes")
    add = group.add_argument
    add(
        "--passes",
        default="default",
        metavar="P",
        help="passes to run, in this order; default stands for those of `odtc compile` (default: "
        "default)",
    )
    add(
        "--stop-after",
        metavar="PASS",
        help="stop after the first run of this pass",
    )
    add(
        "--list",
        action=Switch,
        help="print the passes, one per line, with what each does; needs no model",
    )
    add_ir_option(group, "--print-after")
    add(
        "-o",
        "--output",
        type=output_file,
        metavar="FILE",
        help="file to write the module to (default: stdout)",
    )
    add("--json", action=Switch, help="print the output of --list as JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Runs the passes, or lists them.

    Raises:
        OdtcError: the model, an option or a pass does not allow it.
    """
    _check(args)
    options = step_options(args)
    if args.output:
        hint = "give the module a file of its own"
        check_is_not_read(args.output, args.model, options, hint)
        check_writable(args.output)
    with stages() as progress:
        progress("load the compiler")
        from odtc.driver.opt import PassChoice, described, opt_module, pipeline_options

        target = parse_target(args.target).resolved()
        choice = PassChoice(args.passes, args.stop_after)
        passes = choice.passes(pipeline_options(target, options))
    if args.list:
        _list(described(passes), is_json=args.json)
        return ExitCode.OK
    with printed_after(args.print_after, lambda: [each.title for each in passes]) as progress:
        module = opt_module(args.model, target, options, choice, progress)
    _show(module, args)
    return ExitCode.OK


def _check(args: argparse.Namespace) -> None:
    """Checks that options go together.

    Raises:
        UsageError: they do not.
    """
    if args.list:
        for option, value in (("-o", args.output), ("--print-after", args.print_after)):
            if value:
                raise UsageError(
                    f"{option} is for passes that run; --list runs no passes",
                    hint="leave one of them out",
                )
    elif args.json:
        raise UsageError(
            "--json is for --list; a module is printed as TVM script",
            hint="leave --json out, or give --list",
        )
    elif args.model is None:
        raise UsageError(
            "opt needs a MODEL", hint="give an ONNX file, or --list to see the passes of a target"
        )


def _list(rows: Sequence[Mapping[str, str]], *, is_json: bool) -> None:
    """Prints passes, one a line; one that has others in it is as long as it is."""
    if is_json:
        emit_json(rows)
    else:
        emit(*(f"{row['pass']:<{_COLUMN}}  {row['description']}" for row in rows))


def _show(module: "tvm.IRModule", args: argparse.Namespace) -> None:
    """Prints a module, or writes it to a file."""
    from odtc.passes.pipeline.printing import script_of

    text = script_of(module)
    if args.output is None:
        emit(*text.splitlines())
        return
    with atomic_write(args.output) as file:
        file.write_text(f"{text}\n", encoding="utf-8")
    emit(str(args.output))
