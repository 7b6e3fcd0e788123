"""Checkpoints: weights, optimizer state and step count in one safetensors file with hashes.

Where gradients are added up over several steps, their sums are saved between two updates, beside
the number of micro-batches of a step: twice as many add up to twice as much. Right after an update
the sums are of no use, and are left out; so a step of micro-batches goes on from one that is not.

Files of the format before had neither hashes nor the run that they are of. They are still read.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader
from typing import Any

import numpy as np

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
from odtc.core.specs import WEIGHT_ROLES, Argument, Role
from odtc.runtime_rpc.state.same_run import step_identity

_FORMAT, _WITHOUT_HASHES = "odtc-checkpoint-3", "odtc-checkpoint-2"
_OLD_KEYS = {"format", "model_sha256", "step", "optimizer", "accumulate", "micro_batches"}
_RUN = "run"
# Beside what makes a run the one that it is: how far it has come. See `odtc.runtime_rpc.loop`.
PROGRESS = "progress"
_SAVED_ROLES = (*WEIGHT_ROLES, Role.STATE, Role.AVERAGE)
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
        tensors: those of `saved_arguments`, by name.
        is_hashed: whether it was compared with hashes.
        progress: of the run, as text; empty where nothing kept it.
    """

    step: int
    tensors: Mapping[str, np.ndarray]
    is_hashed: bool
    progress: str = ""


def saved_arguments(manifest: Manifest, step: int) -> list[Argument]:
    """The arguments that a checkpoint after so many steps holds."""
    arguments = manifest.of_role(*_SAVED_ROLES)
    adding_up = step % manifest.accumulate > 0
    return [item for item in arguments if adding_up or not item.is_accumulator]


def write_checkpoint(
    path: str | os.PathLike[str],
    manifest: Manifest,
    step: int,
    tensors: Mapping[str, np.ndarray],
    run: Mapping[str, Any],
) -> None:
    """Writes a checkpoint, whole or not at all.

    Args:
        path: of the file.
        manifest: of the artifact.
        step: number of steps that were taken.
        tensors: those of `saved_arguments`, by name.
        run: what else makes the run the one that it is, for JSON; see `same_run`.

    Raises:
        NumericError: what is trained is not finite; a file that is there stays.
        OutputError: the file cannot be written.
    """
    check_finite(
        {name: tensors[name] for name in _trained(manifest, step)},
        where=f"checkpoint {os.fspath(path)}",
        hint="go on from the last checkpoint, which stays, with a lower learning rate",
    )
    metadata = {
        "format": _FORMAT,
        "model_sha256": manifest.model_sha256,
        "step": str(step),
        "optimizer": str(manifest.optimizer["name"]),
        "accumulate": str(manifest.accumulate),
        "micro_batches": str(manifest.micro_batches),
        _RUN: json.dumps({**run, **step_identity(manifest)}, sort_keys=True),
    }
    with atomic_write(path) as temporary:
        write_tensors(temporary, tensors, metadata, hashed=True)


def read_run(path: str | os.PathLike[str]) -> Mapping[str, Any] | None:
    """A checkpoint's record of its run; None where it is too old to have one.

    Raises:
        ArtifactError: it is missing or damaged.
    """
    with _opened(path) as (_, header):
        if header.hashes is None:
            return None
        run = json.loads(header.metadata.get(_RUN, "{}"))
        if not isinstance(run, dict):
            raise ValueError("its run is none")
        return run


def read_step(path: str | os.PathLike[str]) -> int:
    """A checkpoint's number of steps.

    Raises:
        ArtifactError: it is missing or damaged.
    """
    with _opened(path) as (_, header):
        return int(header.metadata.get("step", "-1"))


def read_checkpoint(path: str | os.PathLike[str], manifest: Manifest) -> Checkpoint:
    """Reads a checkpoint and checks all of it.

    Raises:
        ArtifactError: it is missing, damaged, or of another model, optimizer or accumulation.
    """
    where = str(path)
    with _opened(path) as (file, header):
        metadata = header.metadata
        step = int(metadata.get("step", "-1"))
        micro_batches = int(metadata.get("micro_batches", "1"))
        most = _MOST_PARTS // max(manifest.micro_batches, 1)
        if not 0 <= step < most or not 1 <= micro_batches < _MOST_PARTS:
            raise DamagedError(f"step {step} of {micro_batches} parts; a run has at most {most}")
        _check_fit(metadata, manifest, where)
        wanted = saved_arguments(manifest, step)
        unused = {item.spec.name for item in manifest.of_role(*_SAVED_ROLES)} - {
            item.spec.name for item in wanted
        }
        used = {name: item for name, item in header.entries.items() if name not in unused}
        _check_tensors({name: (i.shape, i.dtype.name) for name, i in used.items()}, wanted, where)
        tensors = {name: array for name, array in read_arrays(file, header) if name in used}
    _rescale(tensors, wanted, manifest.micro_batches / micro_batches)
    return Checkpoint(step, tensors, header.hashes is not None, _progress(metadata))


@contextmanager
def _opened(path: str | os.PathLike[str]) -> Iterator[tuple[BufferedReader, Header]]:
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


def _progress(metadata: Mapping[str, str]) -> str:
    """How far the run had come, as text."""
    run = json.loads(metadata.get(_RUN, "{}"))
    found = run.get(PROGRESS, "") if isinstance(run, dict) else ""
    return found if isinstance(found, str) else ""


def _is_checkpoint(header: Header) -> bool:
    """Whether the format is one of those that are read; the older one has no more than it had."""
    if header.hashes is not None:
        return header.metadata.get("format") == _FORMAT
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


def _check_fit(metadata: Mapping[str, str], manifest: Manifest, where: str) -> None:
    """Other options of the same optimizer may go on from its state; what counts steps may not."""
    if metadata.get("model_sha256") != manifest.model_sha256:
        raise ArtifactError(
            f"the checkpoint is of another model than {manifest.model}",
            where=where,
            hint="load it with an artifact compiled from the model that it was trained with",
        )
    wanted = {"optimizer": str(manifest.optimizer["name"]), "accumulate": str(manifest.accumulate)}
    for key, value in wanted.items():
        if metadata.get(key) != value:
            raise ArtifactError(
                f"the checkpoint was written with {key} {metadata.get(key)}; the step has {value}",
                where=where,
                hint=f"compile with that {key}, or start again without the checkpoint",
            )


def _rescale(tensors: dict[str, np.ndarray], arguments: Iterable[Argument], factor: float) -> None:
    """Gradients that were added up over other micro-batches, as those of this step would be."""
    for item in arguments:
        if item.is_accumulator and factor != 1:
            tensors[item.spec.name] = tensors[item.spec.name] * np.float32(factor)


def _check_tensors(
    found: Mapping[str, tuple[tuple[int, ...], str]], arguments: Iterable[Argument], where: str
) -> None:
    expected = {item.spec.name: (item.spec.shape, item.spec.dtype) for item in arguments}
    differing = sorted(k for k in expected.keys() | found.keys() if expected.get(k) != found.get(k))
    if differing:
        raise ArtifactError(
            f"the checkpoint does not fit the step: {len(differing)} tensors differ, "
            f"such as {differing[0]!r}",
            where=where,
            hint="compile with the optimizer and the parameters that it was trained with",
        )
