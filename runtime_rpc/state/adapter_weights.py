"""The weights of an adapter that a checkpoint of it alone holds, whatever optimizer trained it."""

import os
from dataclasses import dataclass

import numpy as np

from odtc.core.artifact.base import BASE
from odtc.core.artifact.manifest import Manifest
from odtc.core.disk.tensor_file import read_arrays
from odtc.core.specs import WEIGHT_ROLES
from odtc.runtime_rpc.state.checkpoint import check_model, check_tensors, opened
from odtc.runtime_rpc.state.parked import saved_arguments


@dataclass(frozen=True)
class AdapterWeights:
    """What is taken of the file.

    Attributes:
        steps: that were taken of the adapter.
        base: hash of the frozen weights that it was trained over; empty where nothing says it.
        tensors: weights by name.
    """

    steps: int
    base: str
    tensors: dict[str, np.ndarray]


def read_adapter_weights(path: str | os.PathLike[str], manifest: Manifest) -> AdapterWeights:
    """Reads the weights of a checkpoint of one adapter; the optimizer's state stays in the file.

    Args:
        path: of the file.
        manifest: of a step, which may have another optimizer.

    Raises:
        ArtifactError: it is missing, damaged, or of another model; or a weight is missing or has
            another shape.
    """
    where = os.fspath(path)
    items = saved_arguments(manifest, 0, base=False)
    wanted = {item.spec.name: item for item in items if item.role in WEIGHT_ROLES}
    with opened(path) as (file, header):
        metadata = header.metadata
        check_model(metadata, manifest, where)
        of_file = {k: (e.shape, e.dtype.name) for k, e in header.entries.items() if k in wanted}
        check_tensors(of_file, wanted, where)
        tensors = dict(read_arrays(file, header, wanted))
        return AdapterWeights(int(metadata.get("step", "0")), metadata.get(BASE, ""), tensors)
