"""`odtc db`: lists what `odtc tune` measured, joins files, takes out what serves no more."""

import argparse
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from odtc.cli.console import aligned, emit, emit_json, say
from odtc.cli.options import add_json_option, output_file
from odtc.core.disk.outputs import check_outputs
from odtc.core.errors import ExitCode, UsageError
from odtc.core.version import VERSION

if TYPE_CHECKING:
    from odtc.autoschedule.tuning.record import Record


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Adds the command and its parts."""
    parser = subparsers.add_parser(
        "db",
        help="manage the measurements of `odtc tune`",
        description="Manage the files of `odtc tune`, which have one JSON record per line.",
    )
    parts = parser.add_subparsers(metavar="ACTION", required=True, dest="action")
    add = parts.add_parser
    listing = add("list", help="list the measurements", description="List the measurements.")
    _add_database(listing)
    add_json_option(listing)
    listing.set_defaults(run=_list)
    merge = add(
        "merge",
        help="add the records of other files",
        description="Add records of other files that the database lacks.",
    )
    merge.add_argument("files", type=Path, nargs="+", metavar="FILE", help="files to add")
    _add_database(merge)
    merge.set_defaults(run=_merge)
    export = add(
        "export",
        help="export the loops for `odtc compile` to a file",
        description="Write the chosen loops, without trials, to a new file.",
    )
    export.add_argument("output", type=output_file, metavar="OUT", help="file to write")
    _add_database(export)
    export.set_defaults(run=_export)
    prune = add(
        "prune",
        help="remove records that are no longer needed",
        description="Remove trials, and records of other versions of odtc and TVM.",
    )
    _add_database(prune)
    prune.set_defaults(run=_prune)


def _add_database(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--database",
        type=Path,
        metavar="FILE",
        help="database file (default: the user's own)",
    )


def _read(args: argparse.Namespace) -> "tuple[Path, Sequence[Record]]":
    """The database and its records."""
    from odtc.autoschedule.tuning.database import read, user_database

    path = args.database or user_database()
    found = read(path)
    if found.damaged:
        say(f"{path}: {found.damaged} damaged lines were left out")
    return path, found.records


def _list(args: argparse.Namespace) -> int:
    from dataclasses import asdict

    path, records = _read(args)
    if args.json:
        emit_json({"file": str(path), "records": [asdict(record) for record in records]})
        return ExitCode.OK
    kept = [record for record in records if record.kept]
    rows = [("gain", "device", "target", "choice", "workload")]
    rows += [
        (f"{r.gain:.2f}", r.device.name, r.target, _choice(r), r.workload)
        for r in sorted(kept, key=lambda r: -r.gain)
    ]
    if kept:
        emit(*aligned(rows))
    failed = sum(bool(record.reason) for record in records)
    say(f"{path}: {len(kept)} kept, {len(records) - len(kept)} trials, {failed} failed")
    return ExitCode.OK


def _choice(record: "Record") -> str:
    return " ".join(f"{name}={'x'.join(map(str, v))}" for name, v in record.choice.items())


def _merge(args: argparse.Namespace) -> int:
    from odtc.autoschedule.tuning.database import add, merged, read

    path, own = _read(args)
    missing = [str(file) for file in args.files if not file.exists()]
    if missing:
        raise UsageError("the file does not exist", where=missing[0], hint="check the path")
    every = merged(own, *(read(file).records for file in args.files))
    new = every[len(merged(own)) :]
    if new:
        add(path, new)
    say(f"{path}: {len(new)} records were added")
    return ExitCode.OK


def _export(args: argparse.Namespace) -> int:
    from odtc.autoschedule.tuning.database import pruned, replace

    path, records = _read(args)
    check_outputs([args.output], {"the database": [path]}, "`odtc db prune` takes trials out of it")
    kept = [r for r in pruned(records, VERSION, version("apache-tvm")) if r.is_better]
    replace(args.output, kept)
    say(f"{args.output}: {len(kept)} records")
    return ExitCode.OK


def _prune(args: argparse.Namespace) -> int:
    from odtc.autoschedule.tuning.database import pruned, replace

    path, records = _read(args)
    kept = pruned(records, VERSION, version("apache-tvm"))
    if path.exists():
        replace(path, kept)
    say(f"{path}: {len(kept)} of {len(records)} records are left")
    return ExitCode.OK
