"""Checkpoints: weights, optimizer state and step count in one safetensors file with hashes.

Where gradients are added up over several steps, their sums are saved between two updates, beside
the number of micro-batches of a step: twice as many add up to twice as much. Right after an update
the sums are of no use, and are left out; so a step of micro-batches goes on from one that is not.

Files of the format before had neither hashes nor the run that they are of. They are still read.
"""

import json
import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BufferedReader
from typing import Any

import numpy as np

from odtc.core.artifact.base import BASE, base_of
from odtc.core.artifact.manifest import Manifest
from odtc.core.disk.file_kinds import mistaken
from odtc.core.disk.files import atomic_write, not_a_file
from odtc.core.disk.tensor_file import (
    DamagedError,
    Header,
    read_arrays,
    read_header,
    write_tensors,
)
from odtc.core.errors import ArtifactError
from odtc.core.finite import check_finite
from odtc.core.specs import Argument, Role
from odtc.runtime_rpc.state.kept_adapters import (
    ADAPTERS,
    Adapters,
    adapters_of,
    named_arguments,
    read_adapters,
)
from odtc.runtime_rpc.state.parked import DEFAULT, PROGRESS, changed_arguments, saved_arguments
from odtc.runtime_rpc.state.same_run import step_identity

_FORMAT, _WITHOUT_HASHES = "odtc-checkpoint-3", "odtc-checkpoint-2"
# Of several adapters, of which readers of the one before know nothing; and of one without its base.
_OF_SEVERAL, _WITHOUT_BASE = "odtc-checkpoint-4", "odtc-adapter-checkpoint-1"
_OLD_KEYS = {"format", "model_sha256", "step", "optimizer", "accumulate", "micro_batches"}
_RUN = "run"
# The number of a step's last part has to be an int32.
_MOST_PARTS = 2**31 - 1
WITHOUT_HASHES = (
    "a checkpoint of an older odtc: without hashes, so that damage to its numbers cannot be seen"
)
_OTHER_HINT = "take another checkpoint, or start again without one"


@dataclass(frozen=True)
class Checkpoint:
    """The contents of a checkpoint.

    Attributes:
        step: the number of steps that were taken.
        tensors: those of `saved_arguments`, by name; without the base where the file has none.
        is_hashed: whether it was compared with hashes.
        progress: of the run, as text; empty where nothing kept it.
        adapters: of a trainer that had several; None where it had one.
        run: what `Trainer.run` was, without what the step says of itself.
        has_base: whether frozen weights are among the tensors.
        base: hash of the frozen weights that it is of; empty where the file does not say it.
    """

    step: int
    tensors: Mapping[str, np.ndarray]
    is_hashed: bool
    progress: str = ""
    adapters: Adapters | None = None
    run: Mapping[str, str] = field(default_factory=dict)
    has_base: bool = True
    base: str = ""


def write_checkpoint(
    path: str | os.PathLike[str],
    manifest: Manifest,
    step: int,
    tensors: Mapping[str, np.ndarray],
    run: Mapping[str, Any],
    adapters: Adapters | None = None,
    base: str | None = None,
) -> None:
    """Writes a checkpoint, whole or not at all.

    Args:
        path: of the file.
        manifest: of the artifact.
        step: number of steps that were taken.
        tensors: those of `saved_arguments`, by name.
        run: what else makes the run the one that it is, for JSON; see `same_run`.
        adapters: where there are several.
        base: hash of the frozen weights, where these are not among the tensors.

    Raises:
        NumericError: what is trained is not finite; a file that is there stays.
        OutputError: the file cannot be written.
    """
    check_finite(
        {name: tensors[name] for name in _trained(manifest, step)},
        where=f"checkpoint {os.fspath(path)}",
        hint="go on from the last checkpoint, which stays, with a lower learning rate",
    )
    beside = adapters.tensors(manifest) if adapters else {}
    check_finite(
        {name: beside[name] for name in _trained_beside(manifest, adapters)},
        where=f"checkpoint {os.fspath(path)}",
        hint="the name has that of its adapter: trainer.delete_adapter(name) leaves it out",
    )
    form = _OF_SEVERAL if adapters else _FORMAT if base is None else _WITHOUT_BASE
    metadata = {
        "format": form,
        "model_sha256": manifest.model_sha256,
        **({BASE: base} if base else {}),
        "step": str(step),
        "optimizer": str(manifest.optimizer["name"]),
        "accumulate": str(manifest.accumulate),
        "micro_batches": str(manifest.micro_batches),
        _RUN: json.dumps({**run, **step_identity(manifest)}, sort_keys=True),
    }
    if adapters:
        metadata[ADAPTERS] = adapters.text()
    with atomic_write(path) as temporary:
        write_tensors(temporary, {**tensors, **beside}, metadata, hashed=True)


def read_run(
    path: str | os.PathLike[str], adapter: str | None = None, shared: Collection[str] = ()
) -> Mapping[str, Any] | None:
    """A checkpoint's record of its run; None where it is too old to have one.

    Args:
        path: of the file.
        adapter: the one whose run it is; the one at work by default.
        shared: names of what is the same of all adapters: what the step says of itself.

    Raises:
        ArtifactError: it is missing or damaged.
    """
    with opened(path) as (_, header):
        if header.hashes is None:
            return None
        run = json.loads(header.metadata.get(_RUN, "{}"))
        if not isinstance(run, dict):
            raise ValueError("its run is none")
        text = _said_of_adapters(header.metadata)
        parked = read_adapters(text).get(adapter) if text and adapter else None
        if parked is None:
            return run
        return {name: run[name] for name in run.keys() & {*shared}} | dict(parked.run)


def is_adapter_checkpoint(path: str | os.PathLike[str]) -> bool:
    """Whether a file is a checkpoint of one adapter without its base."""
    return _format_of(path) == _WITHOUT_BASE


def is_checkpoint(path: str | os.PathLike[str]) -> bool:
    """Whether a file is a checkpoint with its base."""
    return _format_of(path) in (_FORMAT, _OF_SEVERAL, _WITHOUT_HASHES)


def _format_of(path: str | os.PathLike[str]) -> str | None:
    """What a file says that it is; None where it says nothing."""
    try:
        with open(path, "rb") as file:
            return read_header(file).metadata.get("format")
    except (DamagedError, OSError):
        return None


def read_step(path: str | os.PathLike[str]) -> int:
    """A checkpoint's number of steps.

    Raises:
        ArtifactError: it is missing or damaged.
    """
    with opened(path) as (_, header):
        return int(header.metadata.get("step", "-1"))


def read_active(path: str | os.PathLike[str]) -> str | None:
    """Name of the adapter at work in a checkpoint of several; None in one without such names.

    Raises:
        ArtifactError: it is missing or damaged.
    """
    with opened(path) as (_, header):
        text = _said_of_adapters(header.metadata)
        parked = read_adapters(text) if text else {}
        return next((name for name, each in parked.items() if each is None), None)


def read_adapter_steps(path: str | os.PathLike[str]) -> dict[str, int]:
    """The adapters of a checkpoint, each with its number of steps.

    Raises:
        ArtifactError: it is missing or damaged.
    """
    with opened(path) as (_, header):
        step = int(header.metadata.get("step", "-1"))
        text = _said_of_adapters(header.metadata)
        if text is None:
            return {DEFAULT: step}
        return {name: each.steps if each else step for name, each in read_adapters(text).items()}


def read_checkpoint(path: str | os.PathLike[str], manifest: Manifest) -> Checkpoint:
    """Reads a checkpoint and checks all of it.

    Raises:
        ArtifactError: it is missing, damaged, or of another model, optimizer or accumulation.
    """
    where = str(path)
    with opened(path) as (file, header):
        metadata = header.metadata
        step = int(metadata.get("step", "-1"))
        micro_batches = int(metadata.get("micro_batches", "1"))
        most = _MOST_PARTS // max(manifest.micro_batches, 1)
        if not 0 <= step < most or not 1 <= micro_batches < _MOST_PARTS:
            raise DamagedError(f"step {step} of {micro_batches} parts; a run has at most {most}")
        _check_fit(metadata, manifest, where)
        base, said = metadata["format"] != _WITHOUT_BASE, _said_of_adapters(metadata)
        own = {item.spec.name: item for item in saved_arguments(manifest, step, base=base)}
        beside = named_arguments(said, manifest)
        sums = {item.spec.name for item in changed_arguments(manifest) if item.is_accumulator}
        unused = sums - own.keys()
        used = {name: item for name, item in header.entries.items() if name not in unused}
        found = {name: (i.shape, i.dtype.name) for name, i in used.items()}
        check_tensors(found, own | beside, where)
        tensors = {name: array for name, array in read_arrays(file, header) if name in used}
        _rescale(tensors, own | beside, manifest.micro_batches / micro_batches)
        adapters = adapters_of(said, manifest, tensors)
    mine = {name: tensors[name] for name in own}
    run = _run(metadata)
    progress = run.pop(PROGRESS, "")
    own_run = {name: run[name] for name in run.keys() - step_identity(manifest).keys()}
    hashes = header.hashes or {}
    frozen = {item.spec.name for item in manifest.of_role(Role.FROZEN)} & hashes.keys()
    of_base = base_of({name: hashes[name] for name in frozen}) if base else metadata.get(BASE, "")
    is_hashed = header.hashes is not None
    return Checkpoint(step, mine, is_hashed, progress, adapters, own_run, base, of_base)


@contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[tuple[BufferedReader, Header]]:
    """Yields a checkpoint's file and its checked header.

    Raises:
        ArtifactError: it is missing or none, or what the block reads of it is damaged.
    """
    where = str(path)
    if not os.path.isfile(path):
        raise ArtifactError(
            f"the checkpoint {not_a_file(path)}", where=where, hint="check the path"
        )
    try:
        with open(path, "rb") as file:
            header = read_header(file)
            if not _is_checkpoint(header):
                raise ArtifactError("not a checkpoint of odtc", where=where, hint=_OTHER_HINT)
            yield file, header
    except (DamagedError, OSError, ValueError) as error:
        raise mistaken(path, "checkpoint", ArtifactError) or ArtifactError(
            f"the checkpoint is damaged ({error})", where=where, hint=_OTHER_HINT
        ) from error


def _run(metadata: Mapping[str, str]) -> dict[str, str]:
    """The texts of a run's record, of which one is how far it had come."""
    run = json.loads(metadata.get(_RUN, "{}"))
    found = run.items() if isinstance(run, dict) else ()
    return {name: text for name, text in found if isinstance(text, str)}


def _is_checkpoint(header: Header) -> bool:
    """Whether the format is one of those that are read; the older one has no more than it had."""
    if header.hashes is not None:
        return header.metadata.get("format") in (_FORMAT, _OF_SEVERAL, _WITHOUT_BASE)
    return header.metadata.get("format") == _WITHOUT_HASHES and header.metadata.keys() <= _OLD_KEYS


def _trained(manifest: Manifest, step: int) -> list[str]:
    """Names of what training changes, as far as it has to be finite.

    Frozen weights are what the model has: masks may be infinite. A loss scale that was too large
    overflows gradients that are added up, and the update is left out then.
    """
    may_overflow = bool(manifest.update["loss_scale"])
    return [
        item.spec.name
        for item in saved_arguments(manifest, step)
        if item.role is not Role.FROZEN and not (item.is_accumulator and may_overflow)
    ]


def _trained_beside(manifest: Manifest, adapters: Adapters | None) -> list[str]:
    """The same of adapters that are not at work."""
    may_overflow = bool(manifest.update["loss_scale"])
    named = named_arguments(adapters.text(), manifest) if adapters else {}
    return [name for name, item in named.items() if not (item.is_accumulator and may_overflow)]


def _said_of_adapters(metadata: Mapping[str, str]) -> str | None:
    """What a checkpoint of several adapters says of them; None of another.

    Raises:
        DamagedError: it says nothing.
    """
    if metadata["format"] != _OF_SEVERAL:
        return None
    if ADAPTERS not in metadata:
        raise DamagedError("it has no adapters where it says so")
    return metadata[ADAPTERS]


def _check_fit(metadata: Mapping[str, str], manifest: Manifest, where: str) -> None:
    """Other options of the same optimizer may go on from its state; what counts steps may not."""
    check_model(metadata, manifest, where)
    wanted = {"optimizer": str(manifest.optimizer["name"]), "accumulate": str(manifest.accumulate)}
    for key, value in wanted.items():
        if metadata.get(key) != value:
            raise ArtifactError(
                f"the checkpoint was written with {key} {metadata.get(key)}; the step has {value}",
                where=where,
                hint=f"compile with that {key}, or start again without the checkpoint",
            )


def check_model(metadata: Mapping[str, str], manifest: Manifest, where: str) -> None:
    """Checks that a checkpoint is of the model of a step.

    Raises:
        ArtifactError: it is of another one.
    """
    if metadata.get("model_sha256") != manifest.model_sha256:
        raise ArtifactError(
            f"the checkpoint is from a model other than {manifest.model}",
            where=where,
            hint="load it with an artifact compiled from the model that it was trained with",
        )


def _rescale(
    tensors: dict[str, np.ndarray], arguments: Mapping[str, Argument], factor: float
) -> None:
    """Gradients that were added up over other micro-batches, as those of this step would be."""
    for name, item in arguments.items():
        if item.is_accumulator and factor != 1:
            tensors[name] = tensors[name] * np.float32(factor)


def check_tensors(
    found: Mapping[str, tuple[tuple[int, ...], str]], arguments: Mapping[str, Argument], where: str
) -> None:
    """Checks that tensors, by their shapes and dtypes, are those of arguments.

    Raises:
        ArtifactError: they are others.
    """
    expected = {name: (item.spec.shape, item.spec.dtype) for name, item in arguments.items()}
    differing = sorted(k for k in expected.keys() | found.keys() if expected.get(k) != found.get(k))
    if differing:
        n = len(differing)
        raise ArtifactError(
            "the checkpoint does not fit the step: "
            f"{n} tensor{'s differ' if n > 1 else ' differs'}, such as {differing[0]!r}",
            where=where,
            hint="compile with the optimizer and the parameters that it was trained with",
        )
