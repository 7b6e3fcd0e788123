"""`odtc train --export`: its options, a rehearsal before the training, and the file."""

import argparse
import contextlib
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from odtc.cli.console import say
from odtc.cli.options import output_file
from odtc.cli.switches import Switch
from odtc.core.disk.files import private_folder
from odtc.core.disk.left_behind import remove_folder
from odtc.core.errors import OutputError, ParityError, UsageError

if TYPE_CHECKING:
    from odtc.runtime_rpc.export.write import Exported
    from odtc.runtime_rpc.trainer import Trainer


@dataclass(frozen=True)
class Export:
    """The files that are written of a trained model.

    Attributes:
        export: the file of the model; None for none.
        export_adapters: that of its adapters; None for none.
        export_peft: a folder of them for Hugging Face PEFT; None for none.
        base_model: what that folder says of the model that they are for; None for nothing.
        export_gguf: the file of the adapters for llama.cpp; None for none.
        base_config: the configuration of the model that they are for, which that file needs.
        ema: whether moving averages of the weights take their place.
        training: whether the model keeps the form in which it was compiled.
        merge: whether adapters are merged into the model.
        verify: whether the model is run and compared.
    """

    export: Path | None
    export_adapters: Path | None
    export_peft: Path | None
    base_model: str | None
    export_gguf: Path | None
    base_config: Path | None
    ema: bool
    training: bool
    merge: bool
    verify: bool

    @property
    def files(self) -> tuple[Path | None, ...]:
        """The files among them; None for what is not asked for."""
        return self.export, self.export_adapters, self.export_gguf

    def check(self) -> None:
        """Checks that an option has something to be about.

        Raises:
            UsageError: nothing is exported.
        """
        asked = {
            "export-training": self.training,
            "no-merge": not self.merge,
            "no-verify": not self.verify,
        }
        for name, given in asked.items():
            if given and not self.export:
                raise UsageError(f"--{name} needs an export", hint="pass --export ONNX")
        if self.base_model and not self.export_peft:
            raise UsageError(
                "--base-model needs a folder to be written to", hint="pass --export-peft"
            )
        if bool(self.base_config) != bool(self.export_gguf):
            raise UsageError(
                "--export-gguf and --base-config go together: names in llama.cpp follow from the "
                "configuration of the model",
                hint="pass --export-gguf FILE --base-config config.json",
            )


def add_export_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of an `Export`."""
    add = parser.add_argument
    add(
        "--export",
        type=output_file,
        metavar="ONNX",
        help="write the trained model for inference; it is run first, and compared with the step",
    )
    add(
        "--export-training",
        dest="training",
        action=Switch,
        help="export the model in the form in which it was compiled, with batch normalisation "
        "and dropout as in training; such a file is not compared",
    )
    add(
        "--merge",
        action=Switch,
        stands=True,
        help="merge adapters into the exported model, rather than leave them to "
        "--export-adapters; a file without them is not compared (default: merge)",
    )
    add(
        "--verify",
        action=Switch,
        stands=True,
        help="run the exported model and compare it with the step (default: verify)",
    )
    add("--export-adapters", type=output_file, metavar="FILE", help="write only the adapters")
    add(
        "--export-peft",
        type=Path,
        metavar="FOLDER",
        help="write the adapters, and other modules that are trained, to a new folder that "
        "Hugging Face PEFT loads with PeftModel.from_pretrained",
    )
    add(
        "--base-model",
        metavar="NAME",
        help="name or path of the adapters' base model, to record in the folder of --export-peft",
    )
    add(
        "--export-gguf",
        type=output_file,
        metavar="FILE",
        help="write the adapters for llama.cpp, which loads them with --lora FILE",
    )
    add(
        "--base-config",
        type=Path,
        metavar="JSON",
        help="config.json of the model on Hugging Face, or its folder, for --export-gguf",
    )


def rehearse_export(trainer: "Trainer", asked: Export) -> None:
    """Exports the model before it is trained, to nowhere: a fault shows before the work is done.

    Raises:
        OdtcError: the model cannot be exported; see `Trainer.export_onnx`, `export_peft` and
            `export_gguf`.
    """
    folder = private_folder()
    try:
        with warnings.catch_warnings():
            # They are said of the trained model.
            warnings.simplefilter("ignore")
            if asked.export_peft:
                trainer.export_peft(folder / "peft", ema=asked.ema)
            if asked.export_gguf and asked.base_config:
                trainer.export_gguf(folder / "gguf", asked.base_config, ema=asked.ema)
            if asked.export:
                _write(trainer, folder / asked.export.name, asked)
    finally:
        remove_folder(folder)


def export_model(trainer: "Trainer", asked: Export, checkpoint: Path | None) -> "Exported | None":
    """Writes the model and the adapters, as far as asked for, and says what is not in them.

    Args:
        trainer: with the model.
        asked: what is written.
        checkpoint: where the run keeps one; None if it keeps none.

    Raises:
        OdtcError: the model cannot be exported. A run that keeps no checkpoint gets one then.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        # The adapters first: they need no check.
        if asked.export_adapters:
            trainer.export_adapters(asked.export_adapters, ema=asked.ema)
        if asked.export_peft:
            trainer.export_peft(asked.export_peft, base_model=asked.base_model, ema=asked.ema)
        if asked.export_gguf and asked.base_config:
            trainer.export_gguf(asked.export_gguf, asked.base_config, ema=asked.ema)
        exported = _write_or_save(trainer, asked.export, asked, checkpoint)
    for warning in caught:
        say(f"note: {warning.message}")
    return exported


def _write_or_save(
    trainer: "Trainer", path: Path | None, asked: Export, checkpoint: Path | None
) -> "Exported | None":
    if path is None:
        return None
    try:
        return _write(trainer, path, asked)
    except (ParityError, OutputError):
        # Where there is no room for a model there may be none for a checkpoint: that is no news.
        with contextlib.suppress(OutputError):
            if not checkpoint:
                _save_beside(trainer, path)
        raise


def _save_beside(trainer: "Trainer", export: Path) -> None:
    """Keeps what was trained where nothing else does."""
    kept = Path(f"{export}.ckpt")
    trainer.save_checkpoint(kept)
    say(f"saved {kept}: with --checkpoint {kept} --resume, the same command exports again")


def _write(trainer: "Trainer", path: Path, asked: Export) -> "Exported":
    return trainer.export_onnx(
        path, ema=asked.ema, training=asked.training, merge=asked.merge, verify=asked.verify
    )
