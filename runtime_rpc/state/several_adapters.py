"""Several adapters over one base: which there are, and which one is at work.

They differ in what steps change, and share the base, its kernels and the memory of the step: one is
in that memory, and the others wait in this process. Docs: docs/design/adapters.md.
"""

import os
from collections.abc import Collection
from dataclasses import replace

import numpy as np

from odtc.core.errors import ArtifactError, UsageError
from odtc.core.options.arguments import takes
from odtc.core.options.caller_warning import warn_caller
from odtc.core.options.kinds import PATH, TEXT, optional, shown
from odtc.runtime_rpc.adapters.tensors_file import adapter_arguments
from odtc.runtime_rpc.guards.turns import alone
from odtc.runtime_rpc.guards.uninterrupted import uninterrupted
from odtc.runtime_rpc.state.adapter_names import check_adapter_name
from odtc.runtime_rpc.state.at_work import with_at_work
from odtc.runtime_rpc.state.checkpoint import (
    is_adapter_checkpoint,
    read_adapter_steps,
    read_checkpoint,
    write_checkpoint,
)
from odtc.runtime_rpc.state.exportable_state import ExportableState
from odtc.runtime_rpc.state.parked import Parked, initial, saved_arguments


class SeveralAdapters(ExportableState):
    """A trainer's adapters, of which one is at work."""

    # Whether the user has said which adapter is at work.
    _is_chosen = False

    @property
    def adapters(self) -> tuple[str, ...]:
        """Names of the adapters, in the order in which they were added; empty without LoRA."""
        return tuple(self._adapters)

    @property
    def active_adapter(self) -> str:
        """Name of the active adapter: `default` at first; empty without LoRA."""
        return self._active

    @takes("trainer.add_adapter", name=TEXT, path=optional(PATH))
    @alone
    def add_adapter(self, name: str, path: str | os.PathLike[str] | None = None) -> None:
        """Adds an adapter for the same base model, with its own optimizer state and step count.

            trainer.add_adapter("alice")
            trainer.set_adapter("alice")

        All adapters of a trainer have the rank and the modules that the step was compiled with. An
        adapter includes everything that steps change, also running statistics and other parameters
        that are trained. It starts as in the artifact, before the first step. The active adapter
        stays active.

        Args:
            name: name, of letters, digits, `_`, `-` and `.`.
            path: path of adapters to start from, as for `load_adapters`; or of a file from
                `save_adapter`, whose step count and state are continued.

        Raises:
            ArtifactError: the adapters cannot be read, do not fit, or would change frozen weights
                that other adapters share; nothing is changed.
            UsageError: the step has no adapters, or the name is not valid or already taken.
            DeviceError: the device failed.
        """
        adapter_arguments(self._manifest)
        _check_new(name, self._adapters)
        if path is not None and is_adapter_checkpoint(path):
            kept = read_checkpoint(path, self._manifest)
            self._base.check(kept.base, path)
            self._adapters[name] = Parked(
                kept.step, kept.tensors, kept.progress, kept.run, is_stored=True
            )
            return
        found = self._read_adapters(path, shared=True)[0] if path is not None else {}
        parked = initial(self._bundle.opened())
        given = {item.spec.name: np.ascontiguousarray(value) for item, value in found.items()}
        self._adapters[name] = replace(parked, tensors={**parked.tensors, **given})

    @takes("trainer.set_adapter", name=TEXT)
    @alone
    def set_adapter(self, name: str) -> None:
        """Switches training and evaluation to another adapter, which continues where it was.

        Its step count, state and progress are its own: they have the same bits as if it were the
        only adapter. The base model is not copied.

        Raises:
            UsageError: there is no adapter of that name, or `fit` is running.
            DeviceError: the device failed.
        """
        self._check_known(name)
        if self._in_run:
            raise self._run_goes_on(name, "set_adapter")
        self._is_chosen = True
        if (parked := self._adapters[name]) is None:
            return
        before = self._parked()
        with uninterrupted():
            self._unpark(parked)
            self._adapters |= {self.active_adapter: before, name: None}

    @takes("trainer.save_adapter", path=PATH, name=optional(TEXT))
    @alone
    def save_adapter(self, path: str | os.PathLike[str], name: str | None = None) -> None:
        """Writes a checkpoint of one adapter without the base: its tensors, state and step count.

        `load_checkpoint` loads it into the active adapter, `add_adapter` as a new one, and the
        native runtime with `odtc_load`; each then continues to the same bits. The file records the
        base that it was trained with; all three refuse it for another base.

        Args:
            path: path of the file.
            name: name of the adapter; by default the active one.

        Raises:
            NumericError: a trained tensor is not finite; an existing file is kept.
            OutputError: the file cannot be written.
            UsageError: there is no adapter of that name, or the step has no adapters.
        """
        name = self._active if name is None else name
        self._check_known(name)
        parked = self._adapters[name] or self._parked()
        saved = saved_arguments(self._manifest, parked.steps, base=False)
        tensors = {item.spec.name: parked.tensors[item.spec.name] for item in saved}
        base = self._base.hash
        write_checkpoint(path, self._manifest, parked.steps, tensors, parked.record, base=base)

    @takes("trainer.delete_adapter", name=TEXT)
    @alone
    def delete_adapter(self, name: str) -> None:
        """Deletes an adapter that is not active, with its state and step count.

        Raises:
            UsageError: there is no adapter of that name, or it is active.
        """
        self._check_known(name)
        if name == self.active_adapter:
            raise UsageError(
                f"the adapter {name!r} is in use",
                where="delete_adapter",
                hint="switch to another one with set_adapter, then delete it",
            )
        del self._adapters[name]

    @alone
    def _go_on(self, path: str | os.PathLike[str]) -> None:
        """Takes up the checkpoint of a run, which goes on with the adapter that is at work here.

        A trainer that has none but its first one, which nobody set, goes on with that of the file.

        Raises:
            ArtifactError: as of `load_checkpoint`.
            UsageError: the checkpoint is of several adapters, and has not the one at work.
        """
        found = read_checkpoint(path, self._manifest)
        if found.adapters:
            there, where = found.adapters.parked, os.fspath(path)
            names = ", ".join(there)
            if not self._is_chosen and len(self._adapters) == 1:
                if len(there) > 1:
                    warn_caller(
                        f"{where}: of the adapters {names} the run goes on with "
                        f"{found.adapters.active}; trainer.set_adapter before fit chooses"
                    )
            elif self._active not in there:
                raise UsageError(
                    f"the checkpoint has the adapters {names}, but not {self._active!r}, which is "
                    "in use",
                    where=where,
                    hint="load it with trainer.load_checkpoint, and add one to it with "
                    "add_adapter; or switch to one that it has with set_adapter",
                )
            else:
                found = with_at_work(found, self._active, self._manifest)
        self._take_up(found, path)

    def _check_kept(self, path: str | os.PathLike[str]) -> None:
        """Checks that a run which writes a checkpoint to a file loses no adapter of those in it.

        The one at work is what the run is about, and may begin anew.

        Raises:
            UsageError: the file has steps of other adapters that the trainer does not have.
        """
        found = self._steps_in(path)
        # One of a single adapter is replaced by each run.
        if len(found) < 2:
            return
        there = {name: each for name, each in found.items() if name != self._active}
        if lost := [name for name, (steps, mine) in there.items() if steps and not mine]:
            raise UsageError(
                f"the checkpoint has the adapters {', '.join(found)}, and this run would replace "
                f"it and lose the steps of {', '.join(lost)}",
                where=os.fspath(path),
                hint="give another file, or remove this one; a run of a trainer that has loaded it "
                "keeps them",
            )

    def _others_replaced(self, path: str | os.PathLike[str], keeps: str) -> str:
        """What is to be said where a file that a run writes has other adapters at other steps.

        Args:
            path: of the file.
            keeps: what a file for each adapter does.
        """
        others = self._adapters.keys() - {self._active}
        said = ", ".join(
            f"{name} of step {there} by that of step {here}"
            for name, (there, here) in self._steps_in(path).items()
            if name in others and there != here
        )
        each = f"a file for each adapter {keeps}"
        return f"{os.fspath(path)}: the run replaces {said}; {each}" if said else ""

    def _steps_in(self, path: str | os.PathLike[str]) -> dict[str, tuple[int, int]]:
        """The steps of adapters in a file, and here; none where it is no checkpoint."""
        try:
            found = read_adapter_steps(path)
        except ArtifactError:
            return {}
        mine = {name: self.steps if it is None else it.steps for name, it in self._adapters.items()}
        return {name: (steps, mine.get(name, 0)) for name, steps in found.items()}

    def _check_known(self, name: str) -> None:
        adapter_arguments(self._manifest)
        if name not in self._adapters:
            raise UsageError(
                f"there is no adapter {shown(name)}; the adapters are {', '.join(self._adapters)}",
                hint="trainer.add_adapter(name) adds one",
            )


def _check_new(name: str, known: Collection[str]) -> None:
    check_adapter_name(name)
    if name in known:
        raise UsageError(
            f"there is already an adapter {name!r}",
            hint="trainer.set_adapter(name) continues with it; trainer.delete_adapter(name) "
            "deletes it",
        )
