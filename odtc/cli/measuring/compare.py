"""`odtc compare`: a training step of odtc and its peers, in turns."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from odtc.cli.console import emit, emit_json, say, stages
from odtc.cli.options import add_json_option, at_least, output_file, parse_shape
from odtc.cli.switches import Switch
from odtc.core.disk.files import not_a_file
from odtc.core.disk.outputs import check_outputs
from odtc.core.errors import ExitCode, ParityError, UsageError
from odtc.core.options.byte_sizes import parse_bytes
from odtc.core.options.option_text import did_you_mean
from odtc.core.process.missing_packages import require_packages

if TYPE_CHECKING:
    from odtc.comparison.case import Case
    from odtc.comparison.comparison import Terms
    from odtc.comparison.results import Result
    from odtc.comparison.row import ComparisonRow

PEERS = ("onnxruntime-training", "pytorch", "torch.compile", "mnn", "tvm")
_USUAL = "onnxruntime-training,pytorch"
_USUAL_LIMIT = 1800.0


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Adds the command."""
    parser = subparsers.add_parser(
        "compare",
        help="compare a training step with other libraries",
        description="Train the same weights on the same batch by plain SGD with odtc and other "
        "libraries on this machine, each in its own process. Losses are compared first; then the "
        "libraries take turns, step by step. Dropout is off.",
        epilog="Results are kept as rows in a file; run the same command again to continue after "
        "an interruption. A library that lacks an operator, runs out of memory, crashes or hangs "
        "gets a row with the reason. `odtc report` makes a page of the rows.",
    )
    add = parser.add_argument
    add("model", metavar="MODEL", help="ONNX file of the model")
    add_terms(parser)
    add("--batch", type=counts, default=[1], metavar="N,N", help="samples per step (default: 1)")
    add(
        "--module",
        default="",
        metavar="M",
        help="for PyTorch: function that returns the model's torch module, as "
        "package.module:callable or file.py:callable; tensors named like initializers get the "
        "values of the ONNX file",
    )
    add("--data", type=Path, metavar="NPZ", help="samples; see `odtc train` (default: random)")
    add(
        "--target",
        default="",
        metavar="T",
        help="target for odtc (default: host-cpu with these threads)",
    )
    add(
        "--loss", nargs="+", default=["cross-entropy"], metavar="L", help="loss; see `odtc compile`"
    )
    add(
        "--shape",
        type=parse_shape,
        nargs="+",
        default=[],
        metavar="NAME=N",
        help="sizes of symbolic dimensions other than the batch",
    )
    add(
        "--lr",
        type=float,
        default=0.0,
        metavar="F",
        help="learning rate (default: the largest power of ten at which three steps change the "
        "loss by at most 1/100)",
    )
    add(
        "-o",
        "--output",
        type=output_file,
        metavar="FILE",
        help="file for the rows (default: stem of MODEL, plus .jsonl)",
    )
    add_json_option(parser)
    parser.set_defaults(run=run)


def add_terms(parser: argparse.ArgumentParser) -> None:
    """The options that say how engines are compared."""
    add = parser.add_argument
    add(
        "--threads",
        type=counts,
        default=[1],
        metavar="N,N",
        help="numbers of worker threads (default: 1)",
    )
    add(
        "--with",
        dest="peers",
        type=_peers,
        default=_USUAL,
        metavar="P,P",
        help=f"libraries to compare with: {', '.join(PEERS)} (default: {_USUAL})",
    )
    add(
        "--steps",
        type=at_least(1),
        default=10,
        metavar="N",
        help="number of timed steps (default: 10)",
    )
    add(
        "--rounds",
        type=at_least(1),
        default=1,
        metavar="N",
        help="number of times to load and measure everything anew (default: 1)",
    )
    add(
        "--budget",
        type=lambda text: text.split(","),
        default=[],
        metavar="B,B",
        help="memory budgets to measure odtc with as well, such as 64MiB",
    )
    add(
        "--memory-limit",
        default="",
        metavar="BYTES",
        help="maximum private memory of each library's process, such as 8GB",
    )
    add(
        "--roofline",
        action=Switch,
        help="also measure the limits of the machine: multiply-adds in registers, and a copy",
    )
    add(
        "--limit",
        type=float,
        default=_USUAL_LIMIT,
        metavar="S",
        help="maximum seconds for a library to prepare, to load, or to take a turn (default: 1800)",
    )


def use_usual(args: argparse.Namespace) -> None:
    """Gives options of `add_terms` that are None the values that they have by default."""
    usual = {"peers": _USUAL.split(","), "limit": _USUAL_LIMIT, "threads": [1]}
    for name, value in usual.items():
        if getattr(args, name) is None:
            setattr(args, name, value)


def counts(text: str) -> list[int]:
    """Whole numbers from 1, joined by commas."""
    return [at_least(1)(part) for part in text.split(",")]


def _peers(text: str) -> list[str]:
    for name in text.split(","):
        if name not in PEERS:
            near = did_you_mean(name, PEERS)
            known = ", ".join(PEERS)
            raise argparse.ArgumentTypeError(f"no peer {name!r}; {near}there are {known}")
    return text.split(",")


def terms_of(args: argparse.Namespace, batches: list[int]) -> "Terms":
    """Reads the options that `add_terms` added.

    Raises:
        UsageError: a budget is not a number of bytes.
    """
    from odtc.comparison.comparison import Terms, entries_of

    for budget in args.budget:
        parse_bytes(budget, "--budget")
    return Terms(
        batches,
        args.threads,
        entries_of(args.peers, args.budget),
        args.steps,
        args.rounds,
        args.limit,
        args.roofline,
    )


def parse_limit(text: str) -> int:
    """Bytes of `--memory-limit`; 0 for none."""
    return parse_bytes(text, "--memory-limit") if text else 0


def run(args: argparse.Namespace) -> int:
    """Measures what has no rows yet, and prints tables or one object.

    Raises:
        MissingPackageError: odtc itself lacks a package: without its rows there are no ratios.
        ParityError: a peer's losses are not those of odtc; all is printed before.
    """
    from odtc.comparison.row import row_file

    output = args.output or Path(f"{Path(args.model).stem}.jsonl")
    check_outputs([output], {"what is compared": (args.model, args.data)})
    case, terms = _case(args), terms_of(args, args.batch)
    require_packages("tvm", "psutil")
    if terms.threads != [1]:
        _say_without_threads(args.target)
    with stages() as progress:
        from odtc.comparison.comparison import compare

        file = row_file(output, _identity(args, terms))
        compare(case, Path(args.model).stem, terms, file, progress)
    return told(args, file.rows, output)


def _say_without_threads(target: str) -> None:
    """Says that a GPU's step, such as odtc's may be, has no threads."""
    from odtc.backends.targets import CPU, parse_target

    if target and parse_target(target).kind != CPU:
        say(f"note: --threads are those of the other engines: {target} computes on a GPU")


def told(args: argparse.Namespace, rows: "Sequence[ComparisonRow]", output: Path) -> ExitCode:
    """Prints what was measured.

    Raises:
        ParityError: a peer's losses are not those of odtc; all is printed before.
    """
    from odtc.cli.measuring.compare_tables import summary, table
    from odtc.comparison.results import results_of

    results = results_of(rows)
    if args.json:
        emit_json({"file": str(output), "rows": [row.to_dict() for row in rows]})
    else:
        emit(*table(results), *summary(results))
        say(f"rows are in {output}; `odtc report {output}` makes a page of them")
    raise_mismatch(results)
    return ExitCode.OK


def _case(args: argparse.Namespace) -> "Case":
    from odtc.comparison.case import Case
    from odtc.frontend.file.onnx_file import load_model

    load_model(args.model)
    if args.data and not args.data.is_file():
        hint = "check the path of --data"
        raise UsageError(f"the data file {not_a_file(args.data)}", where=str(args.data), hint=hint)
    return Case(
        str(Path(args.model).absolute()),
        batch=1,
        threads=1,
        loss=tuple(args.loss),
        shape=tuple(args.shape),
        target=args.target,
        module=args.module,
        data=str(args.data.absolute()) if args.data else "",
        lr=args.lr,
        memory_limit=parse_limit(args.memory_limit),
    )


def _identity(args: argparse.Namespace, terms: "Terms") -> dict[str, Any]:
    """The identity of all rows of a file; batches, threads and rounds may be added to."""
    from odtc.core.artifact.bundle import file_sha256

    files = {"sha256": args.model, "data": args.data}
    hashes = {key: file_sha256(Path(path)) if path else "" for key, path in files.items()}
    of_model = {**hashes, "module": args.module}
    how = {"loss": args.loss, "shape": dict(args.shape), "target": args.target, "lr": args.lr}
    return {"model": of_model, **how, **common_identity(args, terms)}


def common_identity(args: argparse.Namespace, terms: "Terms") -> dict[str, Any]:
    """The part that does not depend on a model: how it is measured, and on what."""
    from odtc.comparison.measures.measure import commit, machine, versions

    return {
        "engines": [entry.name for entry in terms.entries],
        "steps": terms.steps,
        "memory_limit": parse_limit(args.memory_limit),
        "machine": machine(),
        "versions": versions(),
        "commit": commit(),
    }


def raise_mismatch(results: "list[Result]") -> None:
    """Raises what the exit code of a comparison with other losses comes from.

    Raises:
        ParityError: there is one.
    """
    from odtc.comparison.outcome import Outcome

    found = [each for each in results if each.outcome is Outcome.MISMATCH]
    if found:
        first = found[0]
        raise ParityError(
            f"{first.engine} does not train as odtc does: {first.reason}",
            where=first.setting.text(),
            hint="it was not timed; a smaller --lr tells rounding from a different gradient",
        )
