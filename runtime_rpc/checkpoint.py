"""Checkpoints: weights, optimizer state and step count in one safetensors file."""

import os
from collections.abc import Mapping

import numpy as np
from safetensors import SafetensorError, safe_open

from odtc.core.errors import ArtifactError
from odtc.core.files import atomic_write
from odtc.core.manifest import Manifest
from odtc.core.specs import TensorSpec
from odtc.core.weights import write_tensors

_FORMAT = "odtc-checkpoint-2"
_OTHER_HINT = "take another checkpoint, or start again without one"


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
    }
    with atomic_write(path) as temporary:
        write_tensors(temporary, tensors, metadata)


def read_checkpoint(
    path: str | os.PathLike[str], manifest: Manifest, specs: list[TensorSpec]
) -> tuple[int, dict[str, np.ndarray]]:
    """The step count and the tensors of a checkpoint.

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
    except (SafetensorError, OSError, ValueError) as error:
        raise ArtifactError(
            f"the checkpoint is damaged ({error})", where=where, hint=_OTHER_HINT
        ) from error
    if metadata.get("format") != _FORMAT or step < 0:
        raise ArtifactError("not a checkpoint of odtc", where=where, hint=_OTHER_HINT)
    if metadata.get("model_sha256") != manifest.model_sha256:
        raise ArtifactError(
            f"the checkpoint is of another model than {manifest.model}",
            where=where,
            hint="load it with an artifact compiled from the model that it was trained with",
        )
    _check_optimizer(metadata, manifest, where)
    _check_tensors(tensors, specs, where)
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


def _check_tensors(tensors: Mapping[str, np.ndarray], specs: list[TensorSpec], where: str) -> None:
    expected = {spec.name: (spec.shape, spec.dtype) for spec in specs}
    found = {name: (array.shape, array.dtype.name) for name, array in tensors.items()}
    differing = sorted(k for k in expected.keys() | found.keys() if expected.get(k) != found.get(k))
    if differing:
        raise ArtifactError(
            f"the checkpoint does not fit the step: {len(differing)} tensors differ, "
            f"such as {differing[0]!r}",
            where=where,
            hint="compile with the optimizer and the parameters that it was trained with",
        )
