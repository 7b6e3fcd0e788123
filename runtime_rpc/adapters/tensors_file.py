"""Adapters in a safetensors file of their own, with the names and shapes of Hugging Face PEFT.

A matrix's A is `base_model.model.NAME.lora_A.weight`, `[rank, in]`, its B `...lora_B.weight`,
`[out, rank]`; an embedding's are `...lora_embedding_A` and `...lora_embedding_B`. NAME is that of
the ONNX initializer without `.weight`: where the exporter kept PyTorch's names, keys are PEFT's.
"""

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from odtc.core.adapters import to_peft
from odtc.core.artifact.manifest import Manifest
from odtc.core.disk.files import atomic_write
from odtc.core.disk.tensor_file import write_tensors
from odtc.core.errors import ArtifactError, UsageError
from odtc.core.options.caller_warning import warn_caller
from odtc.core.specs import WEIGHT_ROLES, Argument, Role
from odtc.runtime_rpc.adapters.fitting import fitted
from odtc.runtime_rpc.adapters.stored import stored_tensors
from odtc.runtime_rpc.state.base import Base

_FORMAT = "odtc-adapters-1"
_SHOWN = 3


def adapter_arguments(manifest: Manifest) -> list[Argument]:
    """The adapters' tensors among the step's arguments.

    Raises:
        UsageError: the step has no adapters.
    """
    if not manifest.adapters:
        raise UsageError(
            "the step trains no adapters", hint="compile the model with lora, or --lora rank=8"
        )
    added = {name for adapter in manifest.adapters for name in adapter.tensors}
    return [item for item in manifest.of_role(*WEIGHT_ROLES) if item.spec.name in added]


def trained_beside(manifest: Manifest) -> str:
    """A note on weights that change beside the adapters; empty if there are none."""
    added = {item.spec.name for item in adapter_arguments(manifest)}
    changed = [item.spec.name for item in manifest.of_role(Role.PARAMETER, Role.STATISTIC)]
    names = [name for name in changed if name not in added]
    if not names:
        return ""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return (
        f"the adapters' file does not hold what was trained in addition to them: "
        f"{', '.join(names[:_SHOWN])}{more}; a model that is exported with merge=False, or "
        "--no-merge, does"
    )


def write_adapters(
    path: str | os.PathLike[str],
    manifest: Manifest,
    tensors: Mapping[str, np.ndarray],
    base: Base,
) -> None:
    """Writes the adapters' tensors, whole or not at all.

    Raises:
        OutputError: the file cannot be written.
    """
    metadata = {
        "format": _FORMAT,
        "model_sha256": manifest.model_sha256,
        "scale": _scales(manifest),
        **base.said(),
    }
    with atomic_write(path) as temporary:
        named = dict(to_peft(k, v) for k, v in tensors.items())
        write_tensors(temporary, named, metadata, hashed=True)


def read_adapters(
    path: str | os.PathLike[str], manifest: Manifest, base: Base
) -> dict[str, np.ndarray]:
    """The adapters' tensors, by the name of the step's argument.

    Raises:
        ArtifactError: the file is missing, damaged, or of another model, rank, scale or
            base.
        UsageError: the step has no adapters.
    """
    where = str(path)
    expected = {item.spec.name: item.spec.shape for item in adapter_arguments(manifest)}
    metadata, stored = stored_tensors(Path(path))
    if metadata.get("model_sha256", manifest.model_sha256) != manifest.model_sha256:
        raise ArtifactError(
            f"the adapters are of a model other than {manifest.model}",
            where=where,
            hint="use adapters of the same model, rank and targets",
        )
    found = fitted(stored, expected, where)
    _check_scale(metadata.get("scale"), manifest, where)
    base.check_exported(metadata, path)
    return found


def _check_scale(given: str | None, manifest: Manifest, where: str) -> None:
    """Checks that a file's adapters were trained with the step's factor of their product.

    A warning tells of a file that does not say it.

    Raises:
        ArtifactError: they were trained with another one.
    """
    wanted = _scales(manifest)
    if given is None:
        warn_caller(
            f"{where}: the file does not say the scale (alpha / rank) that its adapters were "
            f"trained with; the step has {wanted}. A folder of PEFT does"
        )
    elif given != wanted:
        raise ArtifactError(
            f"the adapters were trained with the scale {given} (alpha / rank), and the step has "
            f"{wanted}",
            where=where,
            hint="compile the step with the file's alpha: --lora rank=R,alpha=ALPHA",
        )


def _scales(manifest: Manifest) -> str:
    return ",".join(sorted({str(adapter.scale) for adapter in manifest.adapters}))
