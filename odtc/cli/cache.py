"""`odtc cache`: what is kept of kernels between compiles."""

import argparse

from odtc.backends.kernel_store import kernel_store
from odtc.cli.console import aligned, emit, emit_json, readable_bytes, say
from odtc.cli.options import add_json_option
from odtc.core.content_store import ContentStore, Size
from odtc.core.errors import ExitCode, OutputError


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Adds the command."""
    parser = subparsers.add_parser(
        "cache",
        help="look at kernels that are kept between compiles, or clear them",
        description="Shows what `odtc compile` keeps of kernels for CPUs: object files, each under "
        "the hash of the kernel, its target and the versions that compiled it. A kernel that is "
        "there is not compiled again. What was not used for longest goes first where the room is "
        "full.",
    )
    parser.add_argument("--clear", action="store_true", help="remove them all")
    add_json_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Prints what there is; removes it first, if that is asked for."""
    store = kernel_store()
    if args.clear:
        gone = _cleared(store)
        say(f"removed {_kernels(gone.entries)}, {readable_bytes(gone.nbytes)}")
    found = store.size()
    if args.json:
        emit_json(
            {
                "folder": str(store.folder),
                "kernels": found.entries,
                "bytes": found.nbytes,
                "most_bytes": store.most_bytes,
                "problem": store.problem or None,
            }
        )
        return ExitCode.OK
    room = f"{readable_bytes(found.nbytes)} of {readable_bytes(store.most_bytes)}"
    rows = [("folder", str(store.folder)), ("kernels", f"{found.entries:,}"), ("size", room)]
    if store.problem:
        rows.append(("not used", store.problem))
    emit(*aligned(rows))
    return ExitCode.OK


def _cleared(store: ContentStore) -> Size:
    """Removes all that a store holds.

    Raises:
        OutputError: something stays.
    """
    try:
        return store.clear()
    except OSError as error:
        raise OutputError(
            f"cannot remove what is kept: {error.strerror or error}",
            where=str(error.filename or store.folder),
            hint="remove the folder as the user that it belongs to",
        ) from error


def _kernels(count: int) -> str:
    return "1 kernel" if count == 1 else f"{count:,} kernels"
