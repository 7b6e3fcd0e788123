"""The artifact as its user sees it: a compiled training step that can be saved, loaded and run."""

import os
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, Self

from odtc.core.artifact import bundle as bundles
from odtc.core.artifact.beside import files_beside
from odtc.core.artifact.bundle import Bundle
from odtc.core.artifact.manifest import Manifest
from odtc.core.artifact.memory_plan import MemoryPlan, parse_memory_plans
from odtc.core.disk.left_behind import remove_folder
from odtc.core.elsewhere.names import ARTIFACT
from odtc.core.elsewhere.rows import check_set, no_attribute
from odtc.core.errors import ArtifactError
from odtc.core.notebook import html_table
from odtc.core.options.arguments import takes
from odtc.core.options.caller_warning import warn_caller
from odtc.core.options.idle import said_of_idle
from odtc.core.options.kinds import FLAG, PATH, optional
from odtc.core.options.trainer_kinds import BUNDLE, DEVICE, THREADS

if TYPE_CHECKING:
    from odtc.runtime_rpc.sessions.session import Session
    from odtc.runtime_rpc.trainer import Trainer


HOLDS_ALL = "the artifact holds all of its weights"
"""Why a folder of weights may change nothing."""


@dataclass(frozen=True)
class Memory:
    """Bytes that a training step needs.

    Attributes:
        plan: where each tensor lies in the arena, and when.
        parameter_bytes: of the weights of all kinds: trained, frozen and running statistics.
        optimizer_bytes: of the optimizer's state, accumulators and moving averages.
        accumulator_bytes: of these, the accumulators that only the cut into micro-batches needs. A
            memory budget holds them, and the arena.
        micro_batches: that make a step; the plan is of one of them.
        stored_bytes: of the file in which tensors wait that the arena has no room for.
    """

    plan: MemoryPlan
    parameter_bytes: int
    optimizer_bytes: int
    accumulator_bytes: int = 0
    micro_batches: int = 1
    stored_bytes: int = 0

    @property
    def arena_bytes(self) -> int:
        """Size of the arena, which holds all else but the loss and what a caller feeds."""
        return self.plan.arena_bytes

    @property
    def lower_bound_bytes(self) -> int:
        """No plan for the same lifespans has a smaller arena."""
        return self.plan.lower_bound_bytes

    @property
    def peak_bytes(self) -> int:
        """The most bytes of the arena that are alive at one time."""
        return self.plan.peak_bytes

    @property
    def proven_optimal(self) -> bool:
        """Whether the arena is as small as the lower bound."""
        return self.plan.proven_optimal


class Artifact:
    """A compiled training step with its initial weights.

    Attributes:
        manifest: description of the step: what it was compiled from and for, its arguments and its
            sizes in bytes.
    """

    @takes("odtc.Artifact", bundle=BUNDLE)
    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle

    def __getattr__(self, name: str) -> Any:
        raise no_attribute(self, name, ARTIFACT)

    def __setattr__(self, name: str, value: object) -> None:
        check_set(self, name, (), ARTIFACT)
        super().__setattr__(name, value)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        manifest = self.manifest
        return f"<odtc.Artifact for {manifest.target}, batches of {manifest.batch}>"

    def _repr_html_(self) -> str:
        manifest, sizes = self.manifest, self.manifest.sizes
        rows = {
            "target": str(manifest.target),
            "batch": str(manifest.batch),
            "loss": str(manifest.loss),
            "parameters, bytes": f"{sizes.parameters:,}",
            "optimizer, bytes": f"{sizes.optimizer:,}",
            "step, bytes": f"{sizes.train_step:,}",
        }
        return html_table(rows.items())

    def close(self) -> None:
        """Removes the unpacked files, as do the end of a `with` block and garbage collection.

        Trainers of this artifact can still take steps, but can no longer export anything.
        """
        remove_folder(self._bundle.root)

    @property
    def manifest(self) -> Manifest:
        """The description stored in the artifact."""
        return self._bundle.manifest

    @property
    def memory(self) -> Memory:
        """Memory plan of the training step, the fastest if there are several, and bytes outside it.

        Raises:
            ArtifactError: the plan is damaged.
        """
        return self.memories[0]

    @cached_property
    def memories(self) -> tuple[Memory, ...]:
        """The memory plans of the training step, in the order of the manifest's `plans`.

        Of a step of several lengths these are the plans of the longest.

        Raises:
            ArtifactError: a plan is damaged.
        """
        plans = parse_memory_plans(self._bundle.opened().memory.read_bytes(), bundles.MEMORY)
        if len(plans) != len(self.manifest.every_plan):
            raise ArtifactError(
                f"the artifact has {len(plans)} memory plans; its manifest has "
                f"{len(self.manifest.every_plan)}",
                where=bundles.MEMORY,
                hint="compile the model again",
            )
        sizes, count = self.manifest.sizes, self.manifest.micro_batches
        beside = sizes.parameters, sizes.optimizer, sizes.accumulators
        stored = self.manifest.stored_bytes
        usual = plans[: len(self.manifest.plans)]
        return tuple(Memory(plan, *beside, count, stored) for plan in usual)

    @takes("artifact.save", path=PATH)
    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the artifact to a file, atomically.

        Raises:
            OutputError: the file cannot be written.
        """
        bundles.save(self._bundle.opened(), path)

    @takes(
        "artifact.trainer",
        device=optional(DEVICE),
        **THREADS,
        storage=optional(PATH),
        offload_state=FLAG,
    )
    def trainer(
        self,
        device: "str | Session | None" = None,
        threads: int | None = None,
        cores: str | None = None,
        storage: str | os.PathLike[str] | None = None,
        *,
        offload_state: bool = False,
    ) -> "Trainer":
        """Loads the step on a device and gives it the artifact's weights.

        If the device has more cores than the step was compiled for, and neither `threads` nor
        `cores` is given, a warning says for which target to compile it. Another warning is given if
        `storage` or `offload_state` has no effect, because nothing is kept in files.

        Args:
            device: device to run on: a session, `rpc://HOST:PORT/KEY` of a TVM RPC tracker, or
                `adb://SERIAL`; this machine if None.
            threads: number of worker threads for a step on a CPU, at least 1; if None, one for each
                core, or each of `cores`, up to the number that the artifact has workspaces for.
            cores: cores to bind threads to, each to one of its own: `big` for all but the slowest,
                `little` for the slowest, `all`, or numbers such as `4,5`.
            storage: folder on the device for files that replace memory, such as those for tensors
                of a step compiled with `offload`; by default the user's cache, or the session's
                folder.
            offload_state: whether to keep the optimizer's state and moving averages in such files,
                so that the system can drop their pages between two updates. Not on GPUs.

        Raises:
            ArtifactError: weights that the artifact leaves in a file are missing or have changed;
                this version does not have the target.
            DeviceError: the device cannot be reached, cannot run the artifact, or has no room for
                these files.
            OutputError: this machine has no room for these files.
            UsageError: the artifact is closed; `threads` is not positive, or exceeds that of the
                target or the number of cores; `cores` is malformed, or the device has no such core;
                `threads`, `cores`, `storage` or `offload_state` is given for a step on a GPU.
        """
        from odtc.runtime_rpc.fit import idle_cores
        from odtc.runtime_rpc.guards.turns import made_alone
        from odtc.runtime_rpc.memory.allocation import Placement
        from odtc.runtime_rpc.memory.idle import OF_MEMORY, AtWork
        from odtc.runtime_rpc.sessions.local import LocalSession
        from odtc.runtime_rpc.trainer import Trainer

        bundle = self._bundle.opened()
        placement = Placement(None if storage is None else os.fspath(storage), offload_state)
        options = threads, cores, placement

        def at_work(session: "Session", *, owns: bool) -> tuple[Trainer, str]:
            trainer = Trainer(bundle, session, *options, owns_session=owns)
            chosen = threads is not None or cores is not None
            return trainer, "" if chosen else idle_cores(session, trainer.target)

        def make() -> tuple[Trainer, str]:
            if device is not None and not isinstance(device, str):
                return at_work(device, owns=False)
            session = LocalSession() if device is None else _reached(device)
            try:
                return at_work(session, owns=True)
            except BaseException:
                # Nobody else knows of the session: it would keep the device from others.
                session.close()
                raise

        trainer, idle = made_alone(make)
        unused = said_of_idle(OF_MEMORY, AtWork(bundle.manifest, placement))
        for said in filter(None, (idle, *unused)):
            warn_caller(f"trainer: {said}")
        return trainer


def _reached(url: str) -> "Session":
    """A session with a device: TVM, which reaches it, is imported for no other."""
    from odtc.runtime_rpc.connect import connect

    return connect(url)


@takes("odtc.load", path=PATH, weights=optional(PATH))
def load(path: str | os.PathLike[str], weights: str | os.PathLike[str] | None = None) -> Artifact:
    """Reads an artifact and checks its versions and hashes.

    Args:
        path: path of the artifact.
        weights: folder with the model's files, if the artifact was compiled with `weights_beside`;
            the artifact's folder if None. The files are read when a trainer is created.

    Raises:
        ArtifactError: it is missing, damaged, or of another version.
    """
    bundle = bundles.load(path, _installed_tvm(), weights)
    if weights is not None and not files_beside(bundle):
        warn_caller(f"load: weights changes nothing: {HOLDS_ALL}")
    return Artifact(bundle)


def _installed_tvm() -> str | None:
    """The version of TVM; None where there is none, and the native runtime takes all steps."""
    try:
        return version("apache-tvm")
    except PackageNotFoundError:
        return None
