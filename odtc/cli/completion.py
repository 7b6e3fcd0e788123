"""`odtc completion`: a script with which a shell completes commands, options and values.

shtab makes it of the parser. All is in the script: a completion starts no Python.
"""

import argparse
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from odtc.cli.console import emit_text
from odtc.cli.parser_tree import actions_of, commands_of, help_of
from odtc.core.errors import ExitCode

SHELLS = ("bash", "zsh", "fish")

# Endings of the files that an option takes, by what `--help` calls it; none for any.
_DATA = ("npz", "safetensors", "csv", "tsv", "parquet", "jsonl", "ndjson")
_FILES: Mapping[str, tuple[str, ...]] = {
    "ART": ("odtc",),
    "ART|MODEL.onnx": ("odtc", "onnx"),
    "DATA": _DATA,
    "FILE": (),
    "FILE.py:MAKE": ("py",),
    "JSON": ("json",),
    "JSONL": ("jsonl",),
    "MODEL": ("onnx",),
    "NPZ": ("npz",),
    "ONNX": ("onnx",),
    "OUT": (),
    "PATH": (),
    "RESULTS": ("jsonl",),
    "WEIGHTS": (),
}
_FOLDERS = {"DIR", "FOLDER"}


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Adds the command."""
    parser = subparsers.add_parser(
        "completion",
        help="print a shell completion script",
        description="Print a script that makes a shell complete commands, options and their "
        "values: targets, losses, optimizers, files by extension. For bash, add "
        'eval "$(odtc completion bash)" to ~/.bashrc.',
    )
    parser.add_argument("shell", choices=SHELLS, help="shell to print the script for")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Prints the script."""
    # Imported here, for a quick `--help`.
    import shtab

    _tell_values(args.parser, _values())
    emit_text(shtab.complete(args.parser, args.shell))
    return ExitCode.OK


def _values() -> dict[str, Iterable[str]]:
    """Values that argparse does not know, by the name under which an option's value is kept."""
    from odtc.backends.targets import targets
    from odtc.cli.measuring.compare import PEERS
    from odtc.core.options.cores import WORDS
    from odtc.frontend.losses.text import LOSSES
    from odtc.frontend.optimizers.table import OPTIMIZERS
    from odtc.runtime_rpc.data.augment import AUGMENTATIONS
    from odtc.runtime_rpc.loop.measured.metrics import METRICS
    from odtc.schedules import SCHEDULES

    return {
        "augment": AUGMENTATIONS,
        "cores": WORDS,
        "layout": ("native", "cheapest", "auto"),
        "loss": LOSSES,
        "metrics": METRICS,
        "optimizer": OPTIMIZERS,
        "peers": PEERS,
        "precision": ("float32", "mixed"),
        "schedule": SCHEDULES,
        "target": [target.name for target in targets()],
    }


def _tell_values(parser: argparse.ArgumentParser, values: Mapping[str, Iterable[str]]) -> None:
    """Gives options the values that they have, and commands a line for their description."""
    for action in actions_of(parser):
        if action.choices is None and action.dest in values:
            action.choices = list(values[action.dest])
        elif completed := _files(str(action.metavar)):
            action.complete = completed  # pyright: ignore[reportAttributeAccessIssue]
    for name, each in commands_of(parser).items():
        each.description = help_of(parser, name)
        _tell_values(each, values)


def _files(metavar: str) -> Any:
    """How shtab completes the name of a file; None for what is none."""
    import shtab

    if metavar in _FOLDERS:
        return shtab.DIRECTORY
    if metavar not in _FILES:
        return None
    patterns = [f"*.{ending}" for ending in _FILES[metavar]]
    if not patterns:
        return shtab.FILE
    # shtab has a single pattern in parentheses, which zsh takes for qualifiers of files.
    return shtab.glob(*patterns) | {"zsh": f"_files -g '{_of_zsh(patterns)}'"}


def _of_zsh(patterns: Sequence[str]) -> str:
    """Patterns as one of zsh."""
    return patterns[0] if len(patterns) == 1 else f"({'|'.join(patterns)})"
