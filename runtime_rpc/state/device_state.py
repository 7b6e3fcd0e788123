"""Weights and state of a trainer on its device: read, given, and kept in checkpoints."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from odtc.core.adapters import merge_adapters
from odtc.core.artifact.bundle import Bundle
from odtc.core.artifact.manifest import Manifest
from odtc.core.coded import decoded
from odtc.core.errors import ArtifactError, UsageError
from odtc.core.finite import LAST_CHECKPOINT, check_finite
from odtc.core.options.arguments import takes
from odtc.core.options.caller_warning import warn_caller
from odtc.core.options.kinds import ANYTHING, FLAG, PATH
from odtc.core.specs import WEIGHT_ROLES, Argument, Role
from odtc.runtime_rpc.engines.engine import Engine
from odtc.runtime_rpc.guards.turns import Turns, alone
from odtc.runtime_rpc.guards.uninterrupted import uninterrupted
from odtc.runtime_rpc.memory.allocation import averaged
from odtc.runtime_rpc.sessions.session import Session
from odtc.runtime_rpc.state.base import Base
from odtc.runtime_rpc.state.checkpoint import (
    WITHOUT_HASHES,
    Checkpoint,
    read_checkpoint,
    write_checkpoint,
)
from odtc.runtime_rpc.state.kept_adapters import Adapters
from odtc.runtime_rpc.state.parked import (
    DEFAULT,
    PROGRESS,
    Parked,
    changed_arguments,
    saved_arguments,
)
from odtc.runtime_rpc.state.weights import fitted_weight, refuse_coded

if TYPE_CHECKING:
    from torch.nn import Module

    from odtc.runtime_rpc.state.state_dict import State


class DeviceState:
    """The weights and the state of a training step, on the device where it runs.

    Args:
        bundle: the artifact.
        turns: of the threads that use it.
    """

    session: Session
    _engine: Engine
    _in_run: bool

    def __init__(self, bundle: Bundle, turns: Turns) -> None:
        self.steps = 0
        self.run: dict[str, str] = {}
        self.progress = ""
        # What a file says of the run, as long as no step was taken since.
        self._stored_run: tuple[int, Mapping[str, str]] = (0, {})
        self._bundle, self._manifest, self._turns = bundle, bundle.manifest, turns
        self._base = Base(bundle.manifest, self._read)
        # By their names; None of the one that is at work.
        names = [DEFAULT] if bundle.manifest.adapters else []
        self._adapters: dict[str, Parked | None] = dict.fromkeys(names)

    @property
    def manifest(self) -> Manifest:
        """Description of the step."""
        return self._manifest

    @takes("trainer.parameters", ema=FLAG)
    @alone
    def parameters(self, *, ema: bool = False) -> dict[str, np.ndarray]:
        """Current weights and running statistics, by ONNX initializer name.

        Weights that are stored in 4, 8 or 16 bits are returned as float32.

        Args:
            ema: whether to return the moving averages of the trained parameters instead.

        Raises:
            UsageError: the step keeps no averages.
        """
        read = self._weights(self._manifest.of_role(*WEIGHT_ROLES), ema)
        return decoded(read, self._manifest.coded)

    @takes("trainer.state_dict", ema=FLAG)
    @alone
    def state_dict(self, *, ema: bool = False) -> dict[str, np.ndarray]:
        """Current weights, in the form of the `state_dict` of the exported module.

        For a file from `odtc.from_torch`, these are its parameters and buffers, including those
        that no step changes, a tied one under each of its names; the counters of batch
        normalisations count the steps. For any other file, these are all of its initializers.
        Adapters are merged in. Running variances of a file from `odtc.from_torch` are PyTorch's;
        those of others are ONNX's, which divides the sum of squares of a batch by n, not by n - 1.

        Args:
            ema: whether to return the moving averages of the trained parameters instead.

        Returns:
            The weights by name, in the dtypes of the file.

        Raises:
            UsageError: the step keeps no averages, or the artifact is closed.
        """
        return dict(self._state(ema).values)

    @takes("trainer.to_torch", module=ANYTHING, ema=FLAG)
    @alone
    def to_torch(self, module: "Module", *, ema: bool = False) -> "Module":
        """Copies the current weights into a PyTorch module, in place.

        Args:
            module: module of the same structure as the exported one; its dtypes, device and modes
                are kept.
            ema: whether to use the moving averages of the trained parameters.

        Returns:
            The module.

        Raises:
            DataError: names are missing or unexpected, or shapes or ties differ; the message lists
                all of them, and nothing is changed.
            NumericError: a weight that was trained, or a statistic, is not finite; nothing is
                changed.
            UsageError: `module` is not a module, the step keeps no averages, or the artifact is
                closed.
        """
        from odtc.runtime_rpc.state.state_dict import load_state

        self._finite_weights(self._manifest.of_role(Role.PARAMETER, Role.STATISTIC), ema)
        load_state(module, self._state(ema))
        return module

    def _finite_weights(self, items: Iterable[Argument], ema: bool) -> dict[str, np.ndarray]:
        """Weights that leave the trainer, by name: what is no number would go wrong elsewhere.

        Raises:
            NumericError: some are not finite.
            UsageError: the step keeps no averages.
        """
        weights = self._weights(items, ema)
        check_finite(weights, "export", LAST_CHECKPOINT)
        return weights

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
        """Sets weights of any kind to new values; optimizer state and averages are kept.

        Args:
            values: new values by ONNX initializer name; shapes and dtypes as in `parameters`.

        Raises:
            ArtifactError: several adapters share a frozen weight that would change; nothing is
                changed.
            DataError: a name, a shape or a dtype does not fit, or a weight is stored in 4, 8 or 16
                bits, and cannot be set; nothing is changed.
            UsageError: `values` is not a mapping.
            DeviceError: the device failed.
        """
        weights = {item.spec.name: item for item in self._manifest.of_role(*WEIGHT_ROLES)}
        if not isinstance(values, Mapping):
            raise UsageError(
                f"the values are a {type(values).__name__}, not a mapping",
                where="trainer.set_parameters",
                hint="give {name: array}, such as dict(module.named_parameters())",
            )
        refuse_coded(values, self._manifest.coded)
        checked = {name: fitted_weight(name, value, weights) for name, value in values.items()}
        self._check_shared(
            {name: value for name, value in checked.items() if weights[name].role is Role.FROZEN},
            "trainer.set_parameters gives",
            "set_parameters",
        )
        with uninterrupted():
            self._write({weights[name]: value for name, value in checked.items()})

    @takes("trainer.save_checkpoint", path=PATH)
    @alone
    def save_checkpoint(self, path: str | os.PathLike[str]) -> None:
        """Writes weights, optimizer state and step count with their hashes, atomically.

        It can also be loaded into the same step compiled with another number of micro-batches. It
        contains all adapters, and which of them is active. If adapters were added, the native
        runtime in C cannot read it, but reads files of `save_adapter`.

        Raises:
            NumericError: weights or state are not finite; an existing checkpoint is kept.
            OutputError: the file cannot be written.
        """
        saved = self._read(*saved_arguments(self._manifest, self.steps))
        record = self._record() | ({PROGRESS: self.progress} if self.progress else {})
        # One that has a name of its own keeps it.
        has_names = self._adapters.keys() - {DEFAULT}
        several = Adapters(self._active, self._adapters) if has_names else None
        write_checkpoint(path, self._manifest, self.steps, saved, record, several)

    @takes("trainer.load_checkpoint", path=PATH)
    @alone
    def load_checkpoint(self, path: str | os.PathLike[str]) -> None:
        """Loads weights, optimizer state and step count.

        A checkpoint of several adapters replaces all adapters, and the one that was active is
        active again; a warning names those that it does not have, which are deleted. A checkpoint
        of a single adapter is loaded into the active one, and the others stay.

        A warning is given for a checkpoint without hashes, from an early version of odtc: corrupted
        bits in it cannot be detected.

        Raises:
            ArtifactError: the checkpoint is missing, damaged, or of another model, optimizer or
                number of steps per update, or would change frozen weights that other adapters
                share; nothing is changed.
            UsageError: `fit` is running, and would continue with another adapter.
        """
        found = read_checkpoint(path, self._manifest)
        if self._in_run and found.adapters and found.adapters.active != self._active:
            raise self._run_goes_on(found.adapters.active, os.fspath(path))
        self._take_up(found, path)

    def _run_goes_on(self, name: str, where: str) -> UsageError:
        """An error: the adapter at work is in a run, which counts its steps."""
        return UsageError(
            f"the adapter {self._active!r} is in a run of fit, which would go on with {name!r}",
            where=where,
            hint="let the run end first: run.stop() ends it after the step",
        )

    def _take_up(self, found: Checkpoint, path: str | os.PathLike[str]) -> None:
        """Takes up what was read of a file; see `load_checkpoint`."""
        if not found.is_hashed:
            warn_caller(f"{os.fspath(path)}: {WITHOUT_HASHES}")
        if not found.has_base:
            self._base.check(found.base, path)
        self._check_adapters(found, path)
        items = {item.spec.name: item for item in saved_arguments(self._manifest, found.step)}
        with uninterrupted():
            self._write({items[name]: value for name, value in found.tensors.items()})
            if found.has_base:
                self._base.changed(found.base)
            self._engine.restart(found.step)
            self.steps = found.step
            if found.adapters:
                self._adapters = dict(found.adapters.parked)
        self.progress = found.progress
        # An adapter may be parked before its next step, and is then to be kept with what is known.
        self._stored_run = found.step, found.run if self._adapters else {}

    def _write(self, values: Mapping[Argument, np.ndarray]) -> None:
        """Gives arguments other values."""
        if any(item.role is Role.FROZEN for item in values):
            self._base.changed()
        self._engine.write(values)

    def _record(self) -> dict[str, str]:
        """What makes the run the one that it is, as far as it is known."""
        steps, stored = self._stored_run
        return dict(self.run or (stored if self.steps == steps else {}))

    def _check_adapters(self, found: Checkpoint, path: str | os.PathLike[str]) -> None:
        """Looks at what a checkpoint changes beside the adapter at work, and says it.

        Raises:
            ArtifactError: frozen weights that other adapters share.
        """
        if found.adapters is None:
            self._check_shared(found.tensors, "the checkpoint has", os.fspath(path))
            return
        now = Adapters(self._active, self._adapters)
        untouched = {DEFAULT} if now.steps.get(DEFAULT, self.steps) == 0 else set()
        dropped = [name for name in now.parked if name not in {*found.adapters.parked, *untouched}]
        if dropped:
            warn_caller(f"{os.fspath(path)}: the checkpoint has no {_listed(dropped)}: dropped")
        if len(self._adapters) > 1 and found.adapters.active != self._active:
            warn_caller(
                f"{os.fspath(path)}: the checkpoint uses the adapter {found.adapters.active!r} "
                f"instead of {self._active!r}; trainer.set_adapter changes that"
            )

    def _check_shared(self, found: Mapping[str, np.ndarray], what: str, where: str) -> None:
        """Checks that what is given to one adapter has the base of the others.

        Raises:
            ArtifactError: it has another one.
        """
        frozen = self._manifest.of_role(Role.FROZEN) if len(self._adapters) > 1 else ()
        for item in frozen:
            name = item.spec.name
            if name in found and not np.array_equal(self._read(item)[name], found[name]):
                raise ArtifactError(
                    f"{what} another {name}, which is frozen and shared by the adapters",
                    where=where,
                    hint="give it to a separate trainer",
                )

    @property
    def _active(self) -> str:
        """Name of the adapter at work; empty where there is none."""
        return next((name for name, parked in self._adapters.items() if parked is None), "")

    def _parked(self) -> Parked:
        """What steps changed so far."""
        tensors = self._read(*changed_arguments(self._manifest))
        return Parked(self.steps, tensors, self.progress, self._record(), is_stored=not self.run)

    def _unpark(self, parked: Parked) -> None:
        """Goes on from that; sums of gradients are not there where an update was just made."""
        items = changed_arguments(self._manifest)
        found = {item: parked.tensors.get(item.spec.name) for item in items}
        self._engine.write({item: value for item, value in found.items() if value is not None})
        self._engine.restart(parked.steps)
        self.steps, self.progress = parked.steps, parked.progress
        self.run = {} if parked.is_stored else dict(parked.run)
        self._stored_run = (parked.steps, parked.run) if parked.is_stored else (0, {})

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


def _listed(names: Sequence[str]) -> str:
    """Adapters by their names, as a text."""
    return f"adapter{'s' * (len(names) > 1)} {', '.join(names)}"
