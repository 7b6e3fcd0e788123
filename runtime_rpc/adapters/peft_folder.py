"""The folder of an adapter that Hugging Face PEFT reads and writes.

    adapter_config.json          rank, alpha, modules that are adapted, modules that are saved whole
    adapter_model.safetensors    base_model.model.NAME.lora_A.weight and so on; modules saved whole
                                 as base_model.model.NAME

`PeftModel.from_pretrained(model, folder)` computes what the step does. The packages of Hugging Face
are not needed here.
"""

import json
import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from odtc.core.adapters import PEFT_PREFIX, to_peft
from odtc.core.artifact.manifest import Manifest
from odtc.core.disk.files import atomic_folder
from odtc.core.disk.tensor_file import write_tensors
from odtc.core.errors import ArtifactError
from odtc.core.onnx_model.quantised_names import plain_name
from odtc.core.options.caller_warning import warn_caller
from odtc.core.specs import WEIGHT_ROLES, Argument, Role
from odtc.runtime_rpc.adapters.fitting import fitted
from odtc.runtime_rpc.adapters.peft_config import (
    CONFIG,
    check_config,
    config_of,
    read_config,
    require_modules,
)
from odtc.runtime_rpc.adapters.peft_fields import notes
from odtc.runtime_rpc.adapters.peft_targets import check_targets, names_of
from odtc.runtime_rpc.adapters.saved_modules import Beside, adapted_modules
from odtc.runtime_rpc.adapters.stored import stored_tensors
from odtc.runtime_rpc.adapters.tensors_file import adapter_arguments
from odtc.runtime_rpc.state.base import Base

TENSORS = "adapter_model.safetensors"
_PICKLED = "adapter_model.bin"
_SHOWN = 3


def write_folder(
    path: str | os.PathLike[str],
    manifest: Manifest,
    tensors: Mapping[str, np.ndarray],
    base_model: str | None,
    beside: Beside,
    base: Base,
) -> None:
    """Writes a new folder, whole or not at all.

    Args:
        path: of the folder, which is new or empty.
        manifest: of the step.
        tensors: those of the adapters, and those beside them.
        base_model: what the configuration says of the model that the adapters are for.
        beside: what is trained beside the adapters.
        base: of the trainer.

    Raises:
        OutputError: the folder has files in it, or cannot be written.
        UnsupportedError: an adapted weight has no name of a module's, or is one beside which PEFT
            applies no adapter.
    """
    require_modules(manifest)
    adapters = {item.spec.name: item.spec.shape for item in adapter_arguments(manifest)}
    config = config_of(manifest.adapters, adapters, base_model, beside)
    adapted = adapted_modules(manifest)
    named = dict(
        to_peft(name, value) if name in adapters else (_within(name, adapted), value)
        for name, value in tensors.items()
    )
    with atomic_folder(path) as folder:
        write_tensors(folder / TENSORS, named, {"format": "pt", **base.said()}, hashed=True)
        (folder / CONFIG).write_text(json.dumps(config, indent=2) + "\n")


def read_folder(
    path: str | os.PathLike[str], manifest: Manifest, base: Base
) -> dict[str, np.ndarray]:
    """The adapters of a folder, and the modules that it saved, by the name of the step's argument.

    A warning names what the step trains beside its adapters, and the folder does not hold; another
    tells where it was trained over another base, or does not say over which.

    Raises:
        ArtifactError: a file is missing or damaged, or the adapters are others than the step's.
        UsageError: the step has no adapters.
        UnsupportedError: an adapted weight of the step has no name of a module's, or is one beside
            which PEFT applies no adapter.
    """
    folder, items = Path(path), adapter_arguments(manifest)
    shapes = {item.spec.name: item.spec.shape for item in items}
    require_modules(manifest)
    config = read_config(folder)
    check_config(config, manifest.adapters, shapes, str(folder))
    for note in notes(config, manifest.adapters):
        warn_caller(f"{path}: {note}")
    if not (folder / TENSORS).is_file() and (folder / _PICKLED).is_file():
        raise ArtifactError(
            f"the folder has {_PICKLED}, which holds code, but no {TENSORS}",
            where=str(folder),
            hint="write it again by PEFT: save_pretrained(folder, safe_serialization=True)",
        )
    metadata, stored = stored_tensors(folder / TENSORS)
    beside = [item for item in manifest.of_role(*WEIGHT_ROLES) if item not in items]
    stored = _without_coded(stored, manifest, config, path)
    whole = _saved_whole(stored, {item.spec.name: item for item in beside}, str(folder / TENSORS))
    others = {name: value for name, value in stored.items() if _plain(name) not in whole}
    found = fitted(others, shapes, str(folder / TENSORS)) | whole
    check_targets(config, manifest.adapters, str(folder / CONFIG))
    base.tell_of_folder(metadata, config.get("base_model_name_or_path"), path)
    trained = sorted(item.spec.name for item in beside if item.role is Role.PARAMETER)
    if missing := [name for name in trained if name not in found]:
        more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
        warn_caller(
            f"{path}: the folder holds the adapters, but not {', '.join(missing[:_SHOWN])}{more}, "
            "which the step trains in addition to them: those stay as they are"
        )
    return found


def of_saved_modules(path: str | os.PathLike[str], names: Iterable[str]) -> list[str]:
    """Those of some weights that are of modules that a folder says were trained whole.

    Args:
        path: of the folder, or of a file, which says nothing of modules.
        names: of weights of the step.

    Raises:
        ArtifactError: the folder's configuration is missing or damaged.
    """
    if not os.path.isdir(path):
        return []
    config, where = read_config(Path(path)), os.fspath(path)
    modules = names_of("modules_to_save", config.get("modules_to_save"), where)
    return sorted(each for each in names if any(f".{it}." in f".{each}" for it in modules))


def _without_coded(
    stored: Mapping[str, np.ndarray],
    manifest: Manifest,
    config: Mapping[str, Any],
    path: str | os.PathLike[str],
) -> dict[str, np.ndarray]:
    """The tensors but for weights that the step keeps as codes, which take no other values.

    PEFT puts embeddings and heads of the base into a folder, too, where adapters are for them.

    Raises:
        ArtifactError: one is of a module that was trained whole.
    """
    coded = {plain_name(item.weight) for item in manifest.coded}
    trained = names_of("modules_to_save", config.get("modules_to_save"), os.fspath(path))
    left = sorted(name for name in map(_plain, stored) if name in coded)
    for name in left:
        module = name.rpartition(".")[0]
        if any(module == each or module.endswith(f".{each}") for each in trained):
            raise ArtifactError(
                f"{module} was trained whole, and the step keeps {name} as codes, which take no "
                "other values",
                where=os.fspath(path),
                hint="compile the model with the weights that it was trained to; or without "
                "--quantize, from a file of float32 or float16",
            )
    if left:
        more = f" and {len(left) - _SHOWN} more" if len(left) > _SHOWN else ""
        warn_caller(
            f"{path}: the folder has {', '.join(left[:_SHOWN])}{more} of its base, which the step "
            "keeps as codes: those stay as they are"
        )
    return {name: value for name, value in stored.items() if _plain(name) not in left}


def _saved_whole(
    stored: Mapping[str, np.ndarray], beside: Mapping[str, Argument], where: str
) -> dict[str, np.ndarray]:
    """The tensors that are weights of the step, and no adapters.

    Raises:
        ArtifactError: one has another shape than in the step.
    """
    found = {}
    for name, value in stored.items():
        item = beside.get(_plain(name))
        if item is None:
            continue
        if value.shape != item.spec.shape:
            raise ArtifactError(
                f"{_plain(name)} is {list(value.shape)} in the folder, and {item.spec} in the step",
                where=where,
                hint="take a folder of the same model",
            )
        found[item.spec.name] = value.astype(item.spec.dtype)
    return found


def _within(name: str, adapted: Collection[str]) -> str:
    """The name of a weight in a folder; the inverse of `_plain`."""
    module, _, own = name.rpartition(".")
    return PEFT_PREFIX + (f"{module}.base_layer.{own}" if module in adapted else name)


def _plain(name: str) -> str:
    """The name of a weight in its module; PEFT keeps the base of adapted embeddings, too."""
    return name.removeprefix(PEFT_PREFIX).replace(".base_layer.", ".")
