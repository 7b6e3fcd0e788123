"""`odtc export-app`: what an app needs of a compiled step."""

import argparse
from pathlib import Path

from odtc.cli.console import emit, emit_json, say
from odtc.cli.options import add_json_option
from odtc.core.errors import ExitCode

# The keys of `odtc.app.export.PLATFORMS`, which is not imported to read a command line.
_PLATFORMS = ("linux", "android", "ios")


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Adds the command."""
    parser = subparsers.add_parser(
        "export-app",
        help="package a compiled step for an app",
        description="Write a new folder with the native runtime and a compiled step, ready for "
        "the build of an app. linux: sources of the runtime, with a CMakeLists.txt, and the "
        "model. android: archives (AAR) of the runtime and of the model; this needs a JDK and a "
        "C compiler for 64-bit ARM, but no NDK. ios: Swift packages with the runtime's sources "
        "and the kernels as a static library, for Xcode to compile.",
    )
    parser.add_argument(
        "artifact", type=Path, metavar="ART", help="artifact for a CPU, written by `odtc compile`"
    )
    parser.add_argument("--platform", choices=_PLATFORMS, required=True, help="platform of the app")
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="DIR", help="folder to create"
    )
    parser.add_argument(
        "--name",
        metavar="NAME",
        help="name of the model, unique within the app (default: the artifact's file name up to "
        "its first dot)",
    )
    add_json_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Writes the folder, and prints the files in it."""
    from odtc.app.export import default_name, export_app
    from odtc.artifact import load
    from odtc.cli.model.inspect import kernel_rows

    name = default_name(args.artifact) if args.name is None else args.name
    with load(args.artifact) as artifact:
        files = export_app(artifact, args.platform, args.output, name)
        manifest = artifact.manifest
    if args.json:
        emit_json(
            {
                "folder": str(args.output),
                "name": name,
                "kernels": dict(manifest.kernels),
                "files": {
                    path.relative_to(args.output).as_posix(): path.stat().st_size for path in files
                },
            }
        )
    else:
        for row in kernel_rows(manifest):
            say(" ".join(row))
        emit(*map(str, files))
    return ExitCode.OK
