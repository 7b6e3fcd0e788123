"""`odtc cache`: what is kept between runs, steps, kernels and libraries."""

import argparse
from collections.abc import Mapping

from odtc.cli.console import aligned, emit, emit_json, readable_bytes, say
from odtc.cli.options import add_json_option
from odtc.cli.switches import Switch
from odtc.core.disk.content_store import ContentStore, Size
from odtc.core.errors import ExitCode, OutputError


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Adds the command."""
    parser = subparsers.add_parser(
        "cache",
        help="show or clear odtc's cache",
        description="Show what odtc caches. Steps: complete results, keyed by a hash of the "
        "model, the options, the versions and this machine; if none of these has changed, "
        "nothing is compiled. Kernels for CPUs: object files for use in new steps, each keyed by "
        "a hash of the kernel, its target and the versions that compiled it. Outlines: what the "
        "compiler needs to know about such a kernel to avoid lowering it again. Libraries: parts "
        "of odtc in C++, built on first use. When a cache is full, the least recently used "
        "entries are removed.",
    )
    parser.add_argument("--clear", action=Switch, help="remove everything")
    add_json_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Prints what there is; removes it first, if that is asked for."""
    # Imported here: not every command wants them.
    from odtc.backends.objects.kernel_store import kernel_store, outline_store
    from odtc.core.process.native_library import library_store
    from odtc.step_cache.store import step_store

    stores = {
        "steps": step_store(),
        "kernels": kernel_store(),
        "outlines": outline_store(),
        "libraries": library_store(),
    }
    if args.clear:
        gone = {name: _cleared(store) for name, store in stores.items()}
        counts = ", ".join(f"{name} {size.entries:,}" for name, size in gone.items())
        say(f"removed {counts}: {readable_bytes(sum(size.nbytes for size in gone.values()))}")
    if args.json:
        emit_json({name: _told(store) for name, store in stores.items()})
    else:
        emit(*aligned([row for name, store in stores.items() for row in _rows(name, store)]))
    return ExitCode.OK


def _told(store: ContentStore) -> Mapping[str, str | int | None]:
    found = store.size()
    return {
        "folder": str(store.folder),
        "entries": found.entries,
        "bytes": found.nbytes,
        "most_bytes": store.most_bytes,
        "problem": store.problem or None,
    }


def _rows(name: str, store: ContentStore) -> list[tuple[str, str]]:
    found = store.size()
    room = f"{readable_bytes(found.nbytes)} of {readable_bytes(store.most_bytes)}"
    rows = [(name, f"{found.entries:,}, {room}"), ("", str(store.folder))]
    return [*rows, ("", f"not used: {store.problem}")] if store.problem else rows


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
