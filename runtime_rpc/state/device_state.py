"""Weights and state of a trainer on its device: read, given, saved and exported."""

import os
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from odtc.core.adapters import merge_adapters, without_adapters
from odtc.core.artifact.bundle import Bundle
from odtc.core.artifact.manifest import Manifest
from odtc.core.coded import decoded
from odtc.core.errors import UnsupportedError, UsageError
from odtc.core.options.arguments import takes
from odtc.core.options.caller_warning import warn_caller
from odtc.core.options.kinds import ANYTHING, FLAG, PATH, TEXT, optional
from odtc.core.specs import WEIGHT_ROLES, Argument, Role
from odtc.runtime_rpc.adapters.gguf_adapters import read_base_model, write_gguf_adapters
from odtc.runtime_rpc.adapters.peft_folder import read_folder, write_folder
from odtc.runtime_rpc.adapters.saved_modules import saved_modules
from odtc.runtime_rpc.adapters.tensors_file import (
    adapter_arguments,
    read_adapters,
    trained_beside,
    write_adapters,
)
from odtc.runtime_rpc.engines.engine import Engine
from odtc.runtime_rpc.evaluations import Evaluations
from odtc.runtime_rpc.guards.turns import Turns, alone
from odtc.runtime_rpc.guards.uninterrupted import uninterrupted
from odtc.runtime_rpc.memory.allocation import averaged
from odtc.runtime_rpc.sessions.session import Session
from odtc.runtime_rpc.state.checkpoint import (
    PROGRESS,
    WITHOUT_HASHES,
    read_checkpoint,
    saved_arguments,
    write_checkpoint,
)
from odtc.runtime_rpc.state.weights import fitted_weight, refuse_coded

if TYPE_CHECKING:
    from torch.nn import Module

    from odtc.runtime_rpc.export.write import Exported
    from odtc.runtime_rpc.state.state_dict import State


class DeviceState:
    """The weights and the state of a training step, on the device where it runs.

    Args:
        bundle: the artifact.
        turns: of the threads that use it.
    """

    session: Session
    _engine: Engine
    _evaluations: Evaluations

    def __init__(self, bundle: Bundle, turns: Turns) -> None:
        self.steps = 0
        self.run: dict[str, str] = {}
        self.progress = ""
        self._bundle, self._manifest, self._turns = bundle, bundle.manifest, turns

    @property
    def manifest(self) -> Manifest:
        """The description of the step."""
        return self._manifest

    @takes("trainer.parameters", ema=FLAG)
    @alone
    def parameters(self, *, ema: bool = False) -> dict[str, np.ndarray]:
        """The weights now, running statistics too, by ONNX initializer name.

        Weights that are kept as codes are their floats, in float32.

        Args:
            ema: the moving averages of the trained parameters in their place.

        Raises:
            UsageError: the step keeps no averages.
        """
        read = self._weights(self._manifest.of_role(*WEIGHT_ROLES), ema)
        return decoded(read, self._manifest.coded)

    @takes("trainer.state_dict", ema=FLAG)
    @alone
    def state_dict(self, *, ema: bool = False) -> dict[str, np.ndarray]:
        """The weights now, as the `state_dict` of the module that was exported has them.

        Of a file by `odtc.from_torch` these are its parameters and buffers, those that no step
        changes too, a tied one under each of its names; the counters of batch normalisations count
        the steps. Of another file these are all of its initializers. Adapters are merged in.
        Running variances of a file by `odtc.from_torch` are PyTorch's; those of others are ONNX's,
        which divides the squares of a batch by their number n, and not by n - 1.

        Args:
            ema: the moving averages of the trained parameters in their place.

        Returns:
            By name, in the dtypes of the file.

        Raises:
            UsageError: the step keeps no averages, or the artifact is closed.
        """
        return dict(self._state(ema).values)

    @takes("trainer.to_torch", module=ANYTHING, ema=FLAG)
    @alone
    def to_torch(self, module: "Module", *, ema: bool = False) -> "Module":
        """Gives a PyTorch module the weights as they are now, in place.

        Args:
            module: made as the one that was exported; its dtypes, device and modes stay.
            ema: with the moving averages of the trained parameters.

        Returns:
            The module.

        Raises:
            DataError: a name is missing or left over, or shapes or ties differ; the message lists
                them all, and nothing is changed.
            UsageError: it is no module, the step keeps no averages, or the artifact is closed.
        """
        from odtc.runtime_rpc.state.state_dict import load_state

        load_state(module, self._state(ema))
        return module

    def _state(self, ema: bool) -> "State":
        # With ONNX, which steps alone need not import.
        from odtc.core.onnx_model.shared_tensors import model_in
        from odtc.runtime_rpc.state.state_dict import state_of

        weights = merge_adapters(self.parameters(ema=ema), self._manifest.adapters)
        moved = [item.spec.name for item in self._manifest.of_role(Role.STATISTIC)]
        return state_of(model_in(self._bundle.opened()), weights, moved, self.steps)

    @takes("trainer.set_parameters", values=ANYTHING)
    @alone
    def set_parameters(self, values: Mapping[str, np.ndarray]) -> None:
        """Gives weights of any kind new values; state and averages stay as they are.

        Args:
            values: by ONNX initializer name; shapes and dtypes as `parameters` has them.

        Raises:
            DataError: a name, a shape or a dtype does not fit, or a weight is kept as codes, which
                take no other values; nothing is changed.
            UsageError: it is no mapping.
            DeviceError: the device failed.
        """
        weights = {item.spec.name: item for item in self._manifest.of_role(*WEIGHT_ROLES)}
        if not isinstance(values, Mapping):
            raise UsageError(
                f"the values are a {type(values).__name__}, and no mapping",
                where="trainer.set_parameters",
                hint="give {name: array}, such as dict(module.named_parameters())",
            )
        refuse_coded(values, self._manifest.coded)
        checked = {name: fitted_weight(name, value, weights) for name, value in values.items()}
        with uninterrupted():
            self._engine.write({weights[name]: value for name, value in checked.items()})

    @takes("trainer.save_checkpoint", path=PATH)
    @alone
    def save_checkpoint(self, path: str | os.PathLike[str]) -> None:
        """Writes weights, optimizer state and step count with hashes of them, whole or not at all.

        It fits the same step compiled with another number of micro-batches, too.

        Raises:
            NumericError: weights or state are not finite; a checkpoint that is there stays.
            OutputError: the file cannot be written.
        """
        saved = self._read(*saved_arguments(self._manifest, self.steps))
        progress = {PROGRESS: self.progress} if self.progress else {}
        write_checkpoint(path, self._manifest, self.steps, saved, self.run | progress)

    @takes("trainer.load_checkpoint", path=PATH)
    @alone
    def load_checkpoint(self, path: str | os.PathLike[str]) -> None:
        """Takes up weights, optimizer state and step count.

        A warning tells of a checkpoint without hashes, as they were written before odtc had them:
        a bit of it that changed cannot be seen.

        Raises:
            ArtifactError: the checkpoint is missing, damaged, or of another model, optimizer or
                number of steps to an update; nothing is changed.
        """
        found = read_checkpoint(path, self._manifest)
        if not found.is_hashed:
            warn_caller(f"{os.fspath(path)}: {WITHOUT_HASHES}")
        saved = saved_arguments(self._manifest, found.step)
        with uninterrupted():
            self._engine.write({item: found.tensors[item.spec.name] for item in saved})
            self._engine.restart(found.step)
            self.steps = found.step
        self.progress = found.progress

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
        """Writes the ONNX model for inference with the weights as they are now, adapters merged in.

        Batch normalisations use their running statistics and dropout is left out, in a model that
        was exported for training, too; operator set, and names of inputs and outputs stay. Before
        the file takes its name it is run at the compiled batch and at batch 1, by onnxruntime where
        it is installed, else by ONNX's reference, and compared with `evaluate` on made inputs. What
        could not be compared is a warning.

        Args:
            path: of the new file.
            ema: with the moving averages of the trained parameters.
            training: keep the form in which the model was compiled, to train it again; such a file
                is not compared.
            merge: whether adapters are merged into the weights. Otherwise they are left out, for
                who loads those of `export_adapters` beside the model; what else was trained is
                written, and the file is not compared: `evaluate` has the adapters.
            verify: whether to run and compare the file.

        Returns:
            What was written, and how it was checked; its text says it in a line.

        Raises:
            NumericError: a weight is not finite.
            OutputError: the file cannot be written.
            ParityError: an output of the file is not what `evaluate` gives; no file is left.
            UnsupportedError: the model has no inference form.
            UsageError: the step keeps no averages, or has no adapters to leave out; the artifact is
                closed.
            DeviceError: the device failed.
        """
        from odtc.runtime_rpc.export.write import write_model
        from odtc.runtime_rpc.loop.history import class_names_of

        bundle = self._bundle.opened()
        if not merge:
            adapter_arguments(self._manifest)
        select = merge_adapters if merge else without_adapters
        weights = select(self.parameters(ema=ema), self._manifest.adapters)
        evaluate = partial(self._evaluations.all, instead=self._instead(ema))
        seen = evaluate if verify and merge else None
        names = class_names_of(self.progress)
        exported = write_model(path, bundle, weights, seen, training=training, class_names=names)
        for note in exported.notes:
            warn_caller(f"export: {note}")
        return exported

    @takes("trainer.export_adapters", path=PATH, ema=FLAG)
    @alone
    def export_adapters(self, path: str | os.PathLike[str], *, ema: bool = False) -> None:
        """Writes the adapters alone, named as PEFT does; see `odtc.runtime_rpc.adapters`.

        What was trained beside them, running statistics too, is not in the file: a warning names
        it, and `export_onnx(path, merge=False)` writes it.

        Args:
            path: of the new file.
            ema: their moving averages.

        Raises:
            OutputError: the file cannot be written.
            UsageError: the step has no adapters, or keeps no averages.
        """
        tensors = self._weights(adapter_arguments(self._manifest), ema)
        if beside := trained_beside(self._manifest):
            warn_caller(f"export: {beside}")
        write_adapters(path, self._manifest, tensors)

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

        It holds the adapters, and the modules that are trained whole beside them, as PEFT's
        `modules_to_save`. The packages of Hugging Face are not needed.

        Args:
            path: of the folder, which is new or empty.
            base_model: name or path of the model that the adapters are for, which
                `AutoPeftModel` would load.
            ema: with their moving averages.

        Raises:
            OutputError: the folder has files in it, or cannot be written.
            UnsupportedError: the file of the model does not have PyTorch's names, or what is
                trained beside the adapters has no place in such a folder.
            UsageError: the step has no adapters, or keeps no averages; the artifact is closed.
        """
        adapters = adapter_arguments(self._manifest)
        saved = saved_modules(self._manifest, self._bundle.opened().model)
        beside = [item for items in saved.values() for item in items]
        tensors = self._weights((*adapters, *beside), ema)
        write_folder(path, self._manifest, tensors, base_model, saved)

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
        """Writes the adapters as a GGUF file that llama.cpp loads beside its model: `--lora FILE`.

        Args:
            path: of the new file.
            base_config: `config.json` of the model on Hugging Face, or the folder that has it; the
                names of the tensors follow from its `model_type`.
            ema: their moving averages.

        Raises:
            ModelError: there is no such configuration.
            OutputError: the file cannot be written.
            UnsupportedError: llama.cpp has no names for the model, or for one of its modules; or
                other parameters than the adapters are trained, which have no place in the file.
            UsageError: the step has no adapters, or keeps no averages.
        """
        base, items = read_base_model(base_config), adapter_arguments(self._manifest)
        if beside := trained_beside(self._manifest):
            raise UnsupportedError(
                f"llama.cpp loads adapters alone, and {beside}",
                hint="train the adapters alone, or let llama.cpp's converter read the merged model",
            )
        write_gguf_adapters(path, self._manifest.adapters, self._weights(items, ema), base)

    @takes("trainer.load_adapters", path=PATH)
    @alone
    def load_adapters(self, path: str | os.PathLike[str]) -> None:
        """Takes up adapters that were exported alone, or those of a folder of Hugging Face PEFT.

        Modules that the folder saved whole are taken up, too.

        Args:
            path: of the file, or of the folder.

        Raises:
            ArtifactError: the file or the folder is missing, damaged, or does not fit; the message
                has what either side has, and nothing is changed.
            UsageError: the step has no adapters.
        """
        read = read_folder if os.path.isdir(path) else read_adapters
        tensors = read(path, self._manifest)
        weights = self._manifest.of_role(*WEIGHT_ROLES)
        with uninterrupted():
            self._engine.write(
                {item: tensors[item.spec.name] for item in weights if item.spec.name in tensors}
            )

    def _instead(self, ema: bool) -> dict[str, Argument]:
        """The averages that replace weights, or nothing."""
        return self._averages() if ema else {}

    def _averages(self) -> dict[str, Argument]:
        """The moving averages, by the name of their parameter."""
        averages = {averaged(item): item for item in self._manifest.of_role(Role.AVERAGE)}
        if not averages:
            raise UsageError(
                "the step keeps no moving averages of the parameters",
                hint="compile it with ema, such as 0.999",
            )
        return averages

    def _kept(self) -> Iterator[tuple[str, np.ndarray]]:
        """The tensors that steps change, one after the other."""
        for item in self._manifest.of_role(
            Role.PARAMETER, Role.STATISTIC, Role.STATE, Role.AVERAGE
        ):
            yield from self._read(item).items()

    @alone
    def _weights(self, arguments: Iterable[Argument], ema: bool) -> dict[str, np.ndarray]:
        """Weights by name, or the averages of those that have one."""
        averages = self._instead(ema)
        wanted = {item.spec.name: averages.get(item.spec.name, item) for item in arguments}
        found = self._engine.read(wanted.values())
        return {name: found[item] for name, item in wanted.items()}

    @alone
    def _read(self, *arguments: Argument) -> dict[str, np.ndarray]:
        return {item.spec.name: value for item, value in self._engine.read(arguments).items()}
