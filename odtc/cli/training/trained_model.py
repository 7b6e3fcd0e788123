"""`odtc train --export`: its options, a rehearsal before the training, and the file."""

import argparse
import contextlib
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from odtc.cli.console import say
from odtc.cli.options import output_file
from odtc.core.disk.files import private_folder
from odtc.core.disk.left_behind import remove_folder
from odtc.core.errors import OutputError, ParityError, UsageError

if TYPE_CHECKING:
    from odtc.runtime_rpc.export.write import Exported
    from odtc.runtime_rpc.trainer import Trainer


def add_export_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options."""
    add = parser.add_argument
    add(
        "--export",
        type=output_file,
        metavar="ONNX",
        help="write the trained model, for inference; it is run and compared with the step first",
    )
    add(
        "--export-training",
        action="store_true",
        help="keep the form in which the model was compiled: batch normalisation and dropout as in "
        "training; such a file is not compared",
    )
    add(
        "--no-merge",
        action="store_true",
        help="leave adapters out of the exported model, for --export-adapters to write them; such "
        "a file is not compared",
    )
    add("--no-verify", action="store_true", help="neither run nor compare the exported model")


def check_export_options(args: argparse.Namespace) -> None:
    """Checks that an option has something to be about.

    Raises:
        UsageError: nothing is exported.
    """
    for option in ("export_training", "no_merge", "no_verify"):
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
            with warnings.catch_warnings():
                # They are said of the trained model.
                warnings.simplefilter("ignore")
                _write(trainer, folder / args.export.name, args)
        finally:
            remove_folder(folder)


def export_model(trainer: "Trainer", args: argparse.Namespace) -> "Exported | None":
    """Writes the model and the adapters, as far as asked for, and says what is not in them.

    Raises:
        OdtcError: the model cannot be exported. A run that keeps no checkpoint gets one then.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        # The adapters first: they need no check.
        if args.export_adapters:
            trainer.export_adapters(args.export_adapters, ema=args.ema)
        exported = _write_or_save(trainer, args) if args.export else None
    for warning in caught:
        say(f"note: {warning.message}")
    return exported


def _write_or_save(trainer: "Trainer", args: argparse.Namespace) -> "Exported":
    try:
        return _write(trainer, args.export, args)
    except (ParityError, OutputError):
        # Where there is no room for a model there may be none for a checkpoint: that is no news.
        with contextlib.suppress(OutputError):
            _save_without_checkpoint(trainer, args)
        raise


def _save_without_checkpoint(trainer: "Trainer", args: argparse.Namespace) -> None:
    """Keeps what was trained where nothing else does."""
    if not args.checkpoint:
        kept = Path(f"{args.export}.ckpt")
        trainer.save_checkpoint(kept)
        say(f"saved {kept}: with --checkpoint {kept} --resume, the same command exports again")


def _write(trainer: "Trainer", path: Path, args: argparse.Namespace) -> "Exported":
    return trainer.export_onnx(
        path,
        ema=args.ema,
        training=args.export_training,
        merge=not args.no_merge,
        verify=not args.no_verify,
    )
