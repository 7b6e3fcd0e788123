"""`odtc bench`: a suite of models, each compared as by `odtc compare`, or measured on a device."""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from odtc.cli.console import stages
from odtc.cli.measuring.compare import (
    add_terms,
    common_identity,
    counts,
    parse_limit,
    terms_of,
    told,
    use_usual,
)
from odtc.cli.measuring.device_bench import check_options, measure
from odtc.cli.options import add_json_option, output_file
from odtc.core.disk.left_behind import temporary_folder
from odtc.core.disk.outputs import check_outputs
from odtc.core.errors import UsageError
from odtc.core.process.missing_packages import require_packages

if TYPE_CHECKING:
    from odtc.comparison.comparison import Terms
    from odtc.comparison.row import ComparisonRow
    from odtc.comparison.suite import Suite
    from odtc.core.disk.row_file import RowFile
    from odtc.core.process.progress import Progress


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Adds the command."""
    parser = subparsers.add_parser(
        "bench",
        help="compare training steps of all models of a suite",
        description="Compare odtc with other libraries on every model of a suite at every batch "
        "size, as `odtc compare` does. Results published in the suite's paper are kept with the "
        "rows, but are not used in any ratio.",
        epilog="Results are kept as rows in a file; run the same command again to continue after "
        "an interruption.",
    )
    add = parser.add_argument
    add(
        "--suite",
        required=True,
        metavar="S",
        help="suite: tx2, emdl21, zoo or readme from odtc's repository, or a .toml file (see "
        "docs/comparison.md)",
    )
    add("--models", default="", metavar="M,M", help="models of the suite (default: all)")
    add(
        "--batch",
        type=counts,
        default=[],
        metavar="N,N",
        help="samples per step (default: those of the suite)",
    )
    add_terms(parser)
    add(
        "--device",
        metavar="URL",
        help="measure only odtc, on this device (see `odtc profile`), on its big cores with 1, "
        "2, 4 … threads, or with those of --threads",
    )
    add("--target", default="", metavar="T", help="target for --device (default: android-cpu)")
    # None where they are not given: those of comparisons are refused with --device.
    parser.set_defaults(peers=None, limit=None, threads=None)
    add(
        "-o",
        "--output",
        type=output_file,
        metavar="FILE",
        help="file for the rows (default: name of SUITE, plus .jsonl)",
    )
    add_json_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Measures what has no rows yet, and prints tables or one object.

    Raises:
        MissingPackageError: odtc itself lacks a package: without its rows there are no ratios.
        ParityError: a peer's losses are not those of odtc; all is printed before.
        DeviceError: the device that is to be measured cannot be.
    """
    from odtc.comparison.row import row_file
    from odtc.comparison.suite import find_suite

    check_options(args)
    suite = find_suite(args.suite)
    models = models_of(args.models, suite)
    output = args.output or Path(f"{suite.path.stem}.jsonl")
    check_outputs([output], {"the suite": [suite.path]})
    if args.device is not None:
        require_packages("tvm")
        return measure(args, suite, models, output)
    use_usual(args)
    args.memory_limit = args.memory_limit or suite.memory_limit
    terms = terms_of(args, args.batch or list(suite.batches))
    require_packages("tvm", "psutil")
    file = row_file(output, _identity(args, suite, terms))
    with stages() as progress:
        for model in models:
            _compare(model, suite, terms, parse_limit(args.memory_limit), file, progress)
    return told(args, file.rows, output)


def _compare(
    model: str,
    suite: "Suite",
    terms: "Terms",
    memory_limit: int,
    file: "RowFile[ComparisonRow]",
    progress: "Progress",
) -> None:
    """One model at each batch; what has rows is not made again."""
    from odtc.comparison.comparison import compare, missing
    from odtc.comparison.suite import made

    for batch in terms.batches:
        its = replace(terms, batches=[batch])
        if not any(missing(model, its, file.rows)):
            continue
        with temporary_folder() as folder:
            progress(f"{model}, batch {batch}: make the model")
            case = replace(made(suite, model, batch, folder), memory_limit=memory_limit)
            compare(case, model, its, file, progress)


def models_of(text: str, suite: "Suite") -> list[str]:
    """The models of the suite that were asked for.

    Raises:
        UsageError: one is none of the suite.
    """
    chosen = text.split(",") if text else list(suite.models)
    for name in chosen:
        if name not in suite.models:
            raise UsageError(
                f"no model {name!r} in the suite",
                where=str(suite.path),
                hint=f"there are {', '.join(suite.models)}",
            )
    return chosen


def _identity(args: argparse.Namespace, suite: "Suite", terms: "Terms") -> dict[str, Any]:
    """The identity of all rows of a file; models, batches and rounds may be added to."""
    from odtc.core.artifact.bundle import file_sha256

    about = {"title": suite.title, "sha256": file_sha256(suite.path), "published": suite.published}
    return {"suite": about, **common_identity(args, terms)}
