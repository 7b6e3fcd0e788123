"""`odtc report`: a page of what was measured."""

import argparse
from pathlib import Path

from odtc.cli.console import emit, say
from odtc.cli.options import output_file
from odtc.core.disk.files import atomic_write, check_writable
from odtc.core.disk.outputs import check_outputs
from odtc.core.errors import ExitCode

_MARKDOWN = ".md"


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Adds the command."""
    parser = subparsers.add_parser(
        "report",
        help="make a page of results of `odtc compare` and `odtc bench`",
        description="Make an HTML page that needs no network: where odtc loses, a summary, every "
        "number, and the samples of each model. Also print a short version of it.",
        epilog="Each file holds rows of `odtc compare` or `odtc bench`, or the output of `odtc "
        "plan --json` or `odtc profile --json`, or is an artifact, whose memory is plotted.",
    )
    add = parser.add_argument
    add("results", nargs="+", type=Path, metavar="RESULTS", help="files with results")
    add("--title", default="Training steps compared", metavar="T", help="title of the page")
    add(
        "-o",
        "--output",
        type=output_file,
        default=Path("report.html"),
        metavar="FILE",
        help="page to write; only its tables, as Markdown, if the name ends in .md (default: "
        "report.html)",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Writes the page, and prints tables."""
    check_outputs([args.output], {"what is reported": args.results})
    check_writable(args.output)
    from odtc.cli.measuring.compare_tables import summary, table
    from odtc.report.markdown import markdown
    from odtc.report.page import page
    from odtc.report.read import read

    material = read(args.results)
    write = markdown if args.output.suffix == _MARKDOWN else page
    with atomic_write(args.output) as temporary:
        temporary.write_text(write(material, args.title), encoding="utf-8")
    results = material.results
    if results:
        emit(*table(results), *summary(results))
    say(f"wrote {args.output}")
    return ExitCode.OK
