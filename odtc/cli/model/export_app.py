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
        help="write what an app needs of a compiled step",
        description="Writes a new folder with the native runtime and a compiled step, in the form "
        "that builds of apps take. linux: sources of the runtime, with a CMakeLists.txt, and the "
        "model. android: archives (AAR) of the runtime and of the model; a JDK and a compiler of C "
        "for 64-bit ARM are needed, and no NDK. ios: packages of Swift with the runtime's sources "
        "and the kernels as a static library, for Xcode to compile.",
    )
    parser.add_argument("artifact", type=Path, metavar="ART", help="the artifact, for a CPU")
    parser.add_argument("--platform", choices=_PLATFORMS, required=True, help="where the app runs")
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="DIR", help="the new folder"
    )
    parser.add_argument(
        "--name",
        metavar="NAME",
        help="of the model, other than of the app's other models (default: the artifact's file "
        "name up to its first dot)",
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
