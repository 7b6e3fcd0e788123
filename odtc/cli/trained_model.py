"""`odtc train --export`: its options, a rehearsal before the training, and the file."""

import argparse
import shutil
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from odtc.cli.console import say
from odtc.core.bundle import private_folder
from odtc.core.errors import UsageError

if TYPE_CHECKING:
    from odtc.runtime_rpc.export.write import Exported
    from odtc.runtime_rpc.trainer import Trainer


def add_export_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options."""
    add = parser.add_argument
    add(
        "--export",
        type=Path,
        metavar="ONNX",
        help="write the trained model, for inference; it is run and compared with the step first",
    )
    add(
        "--export-training",
        action="store_true",
        help="keep the form in which the model was compiled: batch normalisation and dropout as in "
        "training; such a file is not compared",
    )
    add("--no-verify", action="store_true", help="neither run nor compare the exported model")


def check_export_options(args: argparse.Namespace) -> None:
    """Checks that an option has something to be about.

    Raises:
        UsageError: nothing is exported.
    """
    for option in ("export_training", "no_verify"):
        if getattr(args, option) and not args.export:
            name = option.replace("_", "-")
            raise UsageError(f"--{name} needs an export", hint="pass --export ONNX")


def rehearse_export(trainer: "Trainer", args: argparse.Namespace) -> None:
    """Exports the model before it is trained, to nowhere: a fault shows before the work is done.

    Raises:
        OdtcError: the model cannot be exported; see `Trainer.export_onnx`.
    """
    if args.export:
        folder = private_folder()
        try:
            _write(trainer, folder / args.export.name, args)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def export_model(trainer: "Trainer", args: argparse.Namespace) -> "Exported | None":
    """Writes the model, if that is asked for, and says what of it could not be compared."""
    if not args.export:
        return None
    exported = _write(trainer, args.export, args)
    for note in exported.notes:
        say(f"note: export: {note}")
    return exported


def _write(trainer: "Trainer", path: Path, args: argparse.Namespace) -> "Exported":
    with warnings.catch_warnings():
        # They are said as notes.
        warnings.simplefilter("ignore")
        return trainer.export_onnx(
            path, ema=args.ema, training=args.export_training, verify=not args.no_verify
        )
