"""Cases: a model and a batch, in a folder that the processes of a network share."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import onnx

from benchmarks.models.zoo import zoo_names
from benchmarks.step_time.cases import case_of

# What is compared where no networks are named.
NETWORKS = (
    *(f"zoo/{name}" for name in zoo_names()),
    *("resnet50", "mobilenet_v2", "densenet121", "bert_base"),
)
MODEL = "model.onnx"
_ABOUT, _BATCH, _LABEL = "case.json", "batch.npz", "label.npy"


@dataclass(frozen=True)
class StoredCase:
    """A case whose model and batch lie in a folder.

    Attributes:
        name: of the network.
        batch: samples in a step.
        lr: learning rate.
        loss: as odtc's options have it.
        is_export: whether the model was exported from a PyTorch module.
        threads: worker threads of each engine.
    """

    name: str
    batch: int
    lr: float
    loss: str
    is_export: bool
    threads: int


def store(name: str, batch: int, threads: int, folder: Path) -> None:
    """Writes a network and one batch of random data."""
    case = case_of(name, batch)
    onnx.save(case.model, folder / MODEL)
    np.savez(folder / _BATCH, **case.x)  # pyright: ignore[reportArgumentType]
    np.save(folder / _LABEL, case.y)
    is_export = case.module is not None
    about = StoredCase(name, case.batch, case.lr, case.loss, is_export, threads)
    (folder / _ABOUT).write_text(json.dumps(asdict(about)))


def stored(folder: Path) -> StoredCase:
    """Reads the case that was written there."""
    return StoredCase(**json.loads((folder / _ABOUT).read_text()))


def batch_of(folder: Path) -> tuple[Mapping[str, np.ndarray], np.ndarray]:
    """Inputs by name, in the order of the model, and labels."""
    with np.load(folder / _BATCH) as arrays:
        return {name: arrays[name] for name in arrays.files}, np.load(folder / _LABEL)
