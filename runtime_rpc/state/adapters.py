"""Adapters in a safetensors file of their own, with the names and shapes of Hugging Face PEFT.

A matrix's A is `base_model.model.NAME.lora_A.weight`, `[rank, in]`, its B `...lora_B.weight`,
`[out, rank]`; an embedding's are `...lora_embedding_A` and `...lora_embedding_B`. NAME is that of
the ONNX initializer without `.weight`: where the exporter kept PyTorch's names, keys are PEFT's.
"""

import os
from collections.abc import Mapping

import numpy as np
from safetensors import SafetensorError, safe_open

from odtc.core.adapters import from_peft, to_peft
from odtc.core.artifact.manifest import Manifest
from odtc.core.disk.files import atomic_write
from odtc.core.disk.tensor_file import DamagedError, check_hashes, write_tensors
from odtc.core.errors import ArtifactError, UsageError
from odtc.core.specs import WEIGHT_ROLES, Argument, Role

_FORMAT = "odtc-adapters-1"
_SHOWN = 3
_HINT = "take adapters of the same model, rank and targets"


def adapter_arguments(manifest: Manifest) -> list[Argument]:
    """The adapters' tensors among the step's arguments.

    Raises:
        UsageError: the step has no adapters.
    """
    if not manifest.adapters:
        raise UsageError(
            "the step trains no adapters", hint="compile the model with lora, or --lora rank=8"
        )
    added = {name for adapter in manifest.adapters for name in (adapter.down, adapter.up)}
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
        f"the adapters' file does not hold what was trained beside them: "
        f"{', '.join(names[:_SHOWN])}{more}; a model that is exported with merge=False, or "
        "--no-merge, does"
    )


def write_adapters(
    path: str | os.PathLike[str], manifest: Manifest, tensors: Mapping[str, np.ndarray]
) -> None:
    """Writes the adapters' tensors, whole or not at all.

    Raises:
        OutputError: the file cannot be written.
    """
    scales = {str(adapter.scale) for adapter in manifest.adapters}
    metadata = {
        "format": _FORMAT,
        "model_sha256": manifest.model_sha256,
        "scale": ",".join(sorted(scales)),
    }
    with atomic_write(path) as temporary:
        named = dict(to_peft(k, v) for k, v in tensors.items())
        write_tensors(temporary, named, metadata, hashed=True)


def read_adapters(path: str | os.PathLike[str], manifest: Manifest) -> dict[str, np.ndarray]:
    """The adapters' tensors, by the name of the step's argument.

    Raises:
        ArtifactError: the file is missing, damaged, or of another model or rank.
        UsageError: the step has no adapters.
    """
    where = str(path)
    expected = {item.spec.name: item.spec.shape for item in adapter_arguments(manifest)}
    if not os.path.isfile(path):
        raise ArtifactError("the adapters do not exist", where=where, hint="check the path")
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            stored = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        check_hashes(path, metadata)
    except (SafetensorError, DamagedError, OSError, ValueError) as error:
        raise ArtifactError(
            f"the adapters are damaged ({error})", where=where, hint=_HINT
        ) from error
    if metadata.get("model_sha256", manifest.model_sha256) != manifest.model_sha256:
        raise ArtifactError(
            f"the adapters are of another model than {manifest.model}", where=where, hint=_HINT
        )
    tensors = dict(from_peft(name, value) for name, value in stored.items())
    found = {name: value.shape for name, value in tensors.items()}
    differing = sorted(k for k in expected.keys() | found.keys() if expected.get(k) != found.get(k))
    if differing:
        raise ArtifactError(
            f"the adapters do not fit the step: {len(differing)} tensors differ, such as "
            f"{differing[0]!r}",
            where=where,
            hint=_HINT,
        )
    return tensors
