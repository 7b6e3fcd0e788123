"""Adapters that a run begins with: a file of them, a folder of PEFT, or a checkpoint of one."""

import os

import numpy as np

from odtc.core.artifact.manifest import Manifest
from odtc.core.errors import ArtifactError
from odtc.core.options.caller_warning import warn_caller
from odtc.runtime_rpc.adapters.peft_folder import read_folder
from odtc.runtime_rpc.adapters.tensors_file import adapter_arguments, read_adapters
from odtc.runtime_rpc.state.adapter_weights import read_adapter_weights
from odtc.runtime_rpc.state.base import Base
from odtc.runtime_rpc.state.checkpoint import (
    is_adapter_checkpoint,
    is_checkpoint,
    read_adapter_steps,
)


def given_adapters(
    path: str | os.PathLike[str], manifest: Manifest, base: Base
) -> dict[str, np.ndarray]:
    """Weights by the name of the step's argument; a warning tells what of a file is not taken.

    Raises:
        ArtifactError: the file or the folder is missing, damaged, does not fit, or is a checkpoint
            with its base.
        UsageError: the step has no adapters.
    """
    adapter_arguments(manifest)
    if os.path.isdir(path):
        return read_folder(path, manifest, base)
    if is_adapter_checkpoint(path):
        return _weights_of(path, manifest, base)
    if is_checkpoint(path):
        names = [*read_adapter_steps(path)]
        of = f" of the adapters {', '.join(names)}" if len(names) > 1 else ""
        raise ArtifactError(
            f"it is a checkpoint{of} with their base, not a file of adapters alone",
            where=os.fspath(path),
            hint="load it whole: trainer.load_checkpoint, or --checkpoint with --adapter NAME; "
            "trainer.save_adapter(path, name) then writes one of them alone",
        )
    return read_adapters(path, manifest, base)


def _weights_of(
    path: str | os.PathLike[str], manifest: Manifest, base: Base
) -> dict[str, np.ndarray]:
    """What a checkpoint of one adapter has of weights."""
    kept = read_adapter_weights(path, manifest)
    base.check(kept.base, path)
    if kept.steps:
        warn_caller(
            f"{os.fspath(path)}: its weights are taken up; its optimizer's state and its "
            f"{kept.steps} steps are not: trainer.load_checkpoint takes up all of it"
        )
    return kept.tensors
