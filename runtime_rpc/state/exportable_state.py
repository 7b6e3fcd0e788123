"""A trainer's weights and adapters as files of other programs: written, and taken up."""

import os
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from odtc.core.adapters import merge_adapters, without_adapters
from odtc.core.errors import ArtifactError, UnsupportedError
from odtc.core.finite import check_finite
from odtc.core.options.arguments import takes
from odtc.core.options.caller_warning import warn_caller
from odtc.core.options.kinds import FLAG, PATH, TEXT, optional
from odtc.core.specs import WEIGHT_ROLES, Argument, Role
from odtc.runtime_rpc.adapters.base_model import read_base_model
from odtc.runtime_rpc.adapters.gguf_adapters import write_gguf_adapters
from odtc.runtime_rpc.adapters.peft_folder import of_saved_modules, write_folder
from odtc.runtime_rpc.adapters.saved_modules import moved_text, saved_beside, unmoved_text
from odtc.runtime_rpc.adapters.tensors_file import (
    adapter_arguments,
    trained_beside,
    write_adapters,
)
from odtc.runtime_rpc.evaluations import Evaluations
from odtc.runtime_rpc.guards.turns import alone
from odtc.runtime_rpc.guards.uninterrupted import uninterrupted
from odtc.runtime_rpc.lengths.feed import LengthEvaluations
from odtc.runtime_rpc.memory.allocation import averaged
from odtc.runtime_rpc.state.device_state import DeviceState
from odtc.runtime_rpc.state.given_adapters import given_adapters

if TYPE_CHECKING:
    from odtc.runtime_rpc.export.write import Exported

_SHOWN = 3


class ExportableState(DeviceState):
    """A state that other programs' files are written from, and adapters read into."""

    _evaluations: Evaluations | LengthEvaluations

    @takes("trainer.export_onnx", path=PATH, ema=FLAG, training=FLAG, merge=FLAG, verify=FLAG)
    @alone
    def export_onnx(
        self,
        path: str | os.PathLike[str],
        *,
        ema: bool = False,
        training: bool = False,
        merge: bool = True,
        verify: bool = True,
    ) -> "Exported":
        """Writes the ONNX model for inference with the current weights, adapters merged in.

        Batch normalisations use their running statistics and dropout is removed, even in a model
        that was exported for training; the operator set and the names of inputs and outputs are
        kept. Before the file is moved to `path`, it is run at the compiled batch size and at batch
        size 1, by onnxruntime if it is installed, otherwise by ONNX's reference implementation, and
        compared with `evaluate` on generated inputs. A warning says what could not be compared.

        Args:
            path: path of the new file.
            ema: whether to use the moving averages of the trained parameters.
            training: whether to keep the form in which the model was compiled, to train it again;
                such a file is not compared.
            merge: whether adapters are merged into the weights. Otherwise they are left out, to be
                loaded from a file of `export_adapters`; everything else that was trained is
                written, and the file is not compared, because `evaluate` includes the adapters.
            verify: whether to run and compare the file.

        Returns:
            What was written, and how it was checked; its text sums it up in a line.

        Raises:
            NumericError: a weight is not finite.
            OutputError: the file cannot be written.
            ParityError: an output of the file differs from that of `evaluate`; no file is left.
            UnsupportedError: the model has no inference form.
            UsageError: the step keeps no averages, or has no adapters to leave out; the artifact is
                closed.
            DeviceError: the device failed.
        """
        from odtc.runtime_rpc.export.write import write_model
        from odtc.runtime_rpc.loop.history import class_names_of, column_names_of

        bundle = self._bundle.opened()
        if not merge:
            adapter_arguments(self._manifest)
        select = merge_adapters if merge else without_adapters
        weights = select(self.parameters(ema=ema), self._manifest.adapters)
        evaluate = partial(self._evaluations.all, instead=self._instead(ema))
        seen = evaluate if verify and merge else None
        exported = write_model(
            *(path, bundle, weights, seen),
            training=training,
            class_names=class_names_of(self.progress),
            column_names=column_names_of(self.progress) or self._manifest.columns,
        )
        for note in exported.notes:
            warn_caller(f"export: {note}")
        return exported

    @takes("trainer.export_adapters", path=PATH, ema=FLAG)
    @alone
    def export_adapters(self, path: str | os.PathLike[str], *, ema: bool = False) -> None:
        """Writes only the adapters, with PEFT's names; see `odtc.runtime_rpc.adapters`.

        Anything else that was trained, including running statistics, is not in the file: a warning
        names it, and `export_onnx(path, merge=False)` writes it.

        Args:
            path: path of the new file.
            ema: whether to write their moving averages.

        Raises:
            NumericError: a weight is not finite; nothing is written.
            OutputError: the file cannot be written.
            UsageError: the step has no adapters, or keeps no averages.
        """
        tensors = self._finite_weights(adapter_arguments(self._manifest), ema)
        if beside := trained_beside(self._manifest):
            warn_caller(f"export: {beside}")
        write_adapters(path, self._manifest, tensors, self._base)

    @takes("trainer.export_peft", path=PATH, base_model=optional(TEXT), ema=FLAG)
    @alone
    def export_peft(
        self,
        path: str | os.PathLike[str],
        *,
        base_model: str | None = None,
        ema: bool = False,
    ) -> None:
        """Writes a new folder that `PeftModel.from_pretrained` of Hugging Face PEFT loads.

        It holds the adapters, modules that are trained in full, as PEFT's `modules_to_save`, and
        biases of modules with adapters, as its `bias`. Hugging Face's packages are not needed.

        Args:
            path: path of the folder, which must be new or empty.
            base_model: name or path of the adapters' base model, for `AutoPeftModel` to load.
            ema: whether to write their moving averages.

        Raises:
            NumericError: a weight is not finite; nothing is written.
            OutputError: the folder has files in it, or cannot be written.
            UnsupportedError: the model's file does not have PyTorch's names, or something else that
                is trained cannot be stored in such a folder.
            UsageError: the step has no adapters, or keeps no averages; the artifact is closed.
        """
        adapters = adapter_arguments(self._manifest)
        beside = saved_beside(self._manifest, self._bundle.opened().model)
        tensors = self._finite_weights((*adapters, *beside.weights), ema)
        write_folder(path, self._manifest, tensors, base_model, beside, self._base)

    @takes(
        "trainer.export_gguf",
        "",
        {"base_model": "base_config"},
        path=PATH,
        base_config=PATH,
        ema=FLAG,
    )
    @alone
    def export_gguf(
        self,
        path: str | os.PathLike[str],
        base_config: str | os.PathLike[str],
        *,
        ema: bool = False,
    ) -> None:
        """Writes the adapters as a GGUF file, which llama.cpp loads with `--lora FILE`.

        Args:
            path: path of the new file.
            base_config: `config.json` of the model on Hugging Face, or the folder that contains it;
                its `model_type` determines the names of the tensors.
            ema: whether to write their moving averages.

        Raises:
            ModelError: the configuration is missing, or its sizes differ from the model's.
            NumericError: a weight is not finite; nothing is written.
            OutputError: the file cannot be written.
            UnsupportedError: llama.cpp has no names for the model, or for one of its modules; or
                parameters other than the adapters are trained, which the file cannot hold.
            UsageError: the step has no adapters, or keeps no averages.
        """
        base, items = read_base_model(base_config), adapter_arguments(self._manifest)
        if beside := trained_beside(self._manifest):
            raise UnsupportedError(
                f"llama.cpp loads adapters alone, and {beside}",
                hint="train the adapters alone, or let llama.cpp's converter read the merged model",
            )
        tensors = self._finite_weights(items, ema)
        write_gguf_adapters(path, self._manifest, tensors, base)

    @takes("trainer.load_adapters", path=PATH)
    @alone
    def load_adapters(self, path: str | os.PathLike[str]) -> None:
        """Loads adapters from a file of `export_adapters` or a folder of Hugging Face PEFT.

        Modules that the folder saved in full are loaded, too; a warning names those that the step
        does not train. Moving averages of everything loaded start anew; the optimizer's state is
        kept. From a file of `save_adapter`, its weights and running statistics are loaded; a
        warning says that its step count and state are not; `load_checkpoint` loads these, too.

        Files record the frozen weights that they were trained with, and are refused for others. A
        folder is loaded for any base; a warning is given if its base was different, or is not
        known.

        Args:
            path: path of the file or folder.

        Raises:
            ArtifactError: the file or the folder is missing, damaged, or does not fit; the message
                shows both sides, and nothing is changed.
            NumericError: elements are not finite.
            UsageError: the step has no adapters.
        """
        found, moved = self._read_adapters(path, shared=len(self._adapters) > 1)
        with uninterrupted():
            self._write(found)
        if moved:
            warn_caller(f"{os.fspath(path)}: {moved_text(item.spec.name for item in moved)}")

    def _read_adapters(
        self, path: str | os.PathLike[str], *, shared: bool
    ) -> tuple[dict[Argument, np.ndarray], list[Argument]]:
        """What a file or a folder gives to the step, and which frozen weights it changes.

        Raises:
            ArtifactError: as of `load_adapters`; or others share what it changes.
            NumericError: elements are not finite.
            UsageError: the step has no adapters.
        """
        tensors = given_adapters(path, self._manifest, self._base)
        check_finite(tensors, os.fspath(path), "take adapters of a run whose loss stayed a number")
        weights = self._manifest.of_role(*WEIGHT_ROLES)
        found = {item: tensors[item.spec.name] for item in weights if item.spec.name in tensors}
        still = self._engine.read([item for item in found if item.role is Role.FROZEN])
        moved = [item for item, value in still.items() if not np.array_equal(value, found[item])]
        # PEFT puts embeddings of the base into a folder: written, they would lie in memory once
        # more, where they are mapped from a file.
        found = {item: value for item, value in found.items() if item in moved or item not in still}
        kept = {averaged(item): item for item in self._manifest.of_role(Role.AVERAGE)}
        found |= {kept[name]: value for name, value in tensors.items() if name in kept}
        if moved and shared:
            names = ", ".join(item.spec.name for item in moved[:_SHOWN])
            more = f" and {len(moved) - _SHOWN} more" if len(moved) > _SHOWN else ""
            raise ArtifactError(
                f"the adapters come with other values of {names}{more} than the step has, and all "
                "adapters share the base",
                where=os.fspath(path),
                hint="load them into a trainer of their own, or compile the step so that it trains "
                "these weights",
            )
        same = of_saved_modules(path, (it.spec.name for it in still if it not in moved))
        if same:
            warn_caller(f"{os.fspath(path)}: {unmoved_text(same)}")
        return found, moved
