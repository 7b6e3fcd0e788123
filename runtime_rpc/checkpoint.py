"""Checkpoints: weights, optimizer state and step count in one safetensors file.

Where gradients are added up over several steps, their sums are saved between two updates, beside
the number of micro-batches of a step: twice as many add up to twice as much. Right behind an update
the sums are of no use, and are left out; so a step of micro-batches goes on from one that is not.
"""

import os
from collections.abc import Iterable, Mapping

import numpy as np
from safetensors import SafetensorError, safe_open

from odtc.core.errors import ArtifactError
from odtc.core.files import atomic_write
from odtc.core.manifest import Manifest
from odtc.core.specs import WEIGHT_ROLES, Argument, Role
from odtc.core.weights import write_tensors

_FORMAT = "odtc-checkpoint-2"
_SAVED_ROLES = (*WEIGHT_ROLES, Role.STATE, Role.AVERAGE)
_OTHER_HINT = "take another checkpoint, or start again without one"


def saved_arguments(manifest: Manifest, step: int) -> list[Argument]:
    """The arguments that a checkpoint after so many steps holds."""
    arguments = manifest.of_role(*_SAVED_ROLES)
    adding_up = step % manifest.accumulate > 0
    return [item for item in arguments if adding_up or not item.is_accumulator]


def write_checkpoint(
    path: str | os.PathLike[str], manifest: Manifest, step: int, tensors: Mapping[str, np.ndarray]
) -> None:
    """Writes a checkpoint, whole or not at all.

    Raises:
        OutputError: the file cannot be written.
    """
    metadata = {
        "format": _FORMAT,
        "model_sha256": manifest.model_sha256,
        "step": str(step),
        "optimizer": str(manifest.optimizer["name"]),
        "accumulate": str(manifest.accumulate),
        "micro_batches": str(manifest.micro_batches),
    }
    with atomic_write(path) as temporary:
        write_tensors(temporary, tensors, metadata)


def read_checkpoint(
    path: str | os.PathLike[str], manifest: Manifest
) -> tuple[int, dict[str, np.ndarray]]:
    """The step count and the tensors of a checkpoint, those of `saved_arguments`.

    Raises:
        ArtifactError: it is missing, damaged, or of another model, optimizer or accumulation.
    """
    where = str(path)
    if not os.path.isfile(path):
        raise ArtifactError("the checkpoint does not exist", where=where, hint="check the path")
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            step = int(metadata.get("step", "-1"))
            micro_batches = int(metadata.get("micro_batches", "1"))
    except (SafetensorError, OSError, ValueError) as error:
        raise ArtifactError(
            f"the checkpoint is damaged ({error})", where=where, hint=_OTHER_HINT
        ) from error
    if metadata.get("format") != _FORMAT or step < 0 or micro_batches < 1:
        raise ArtifactError("not a checkpoint of odtc", where=where, hint=_OTHER_HINT)
    if metadata.get("model_sha256") != manifest.model_sha256:
        raise ArtifactError(
            f"the checkpoint is of another model than {manifest.model}",
            where=where,
            hint="load it with an artifact compiled from the model that it was trained with",
        )
    _check_optimizer(metadata, manifest, where)
    wanted = saved_arguments(manifest, step)
    unused = {item.spec.name for item in manifest.of_role(*_SAVED_ROLES)} - {
        item.spec.name for item in wanted
    }
    tensors = {name: array for name, array in tensors.items() if name not in unused}
    _check_tensors(tensors, wanted, where)
    _rescale(tensors, wanted, manifest.micro_batches / micro_batches)
    return step, tensors


def _check_optimizer(metadata: Mapping[str, str], manifest: Manifest, where: str) -> None:
    """Other options of the same optimizer may go on from its state; what counts steps may not."""
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
    tensors: Mapping[str, np.ndarray], arguments: Iterable[Argument], where: str
) -> None:
    expected = {item.spec.name: (item.spec.shape, item.spec.dtype) for item in arguments}
    found = {name: (array.shape, array.dtype.name) for name, array in tensors.items()}
    differing = sorted(k for k in expected.keys() | found.keys() if expected.get(k) != found.get(k))
    if differing:
        raise ArtifactError(
            f"the checkpoint does not fit the step: {len(differing)} tensors differ, "
            f"such as {differing[0]!r}",
            where=where,
            hint="compile with the optimizer and the parameters that it was trained with",
        )
