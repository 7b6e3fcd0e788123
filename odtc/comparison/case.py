"""The case that every engine is given, in a folder that the processes of a case share."""

import dataclasses
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

Arrays = Mapping[str, np.ndarray]
# A step of an engine, from inputs and labels to the loss; and what makes an engine ready for it.
Step = Callable[[Arrays, Arrays], float]
Load = Callable[[], Step]

_ABOUT = "case.json"


@dataclass(frozen=True)
class Case:
    """A model and how it is trained.

    Attributes:
        model: absolute path of the ONNX file.
        batch: samples in a step.
        threads: worker threads of each engine.
        loss: as `--loss` takes it, one text for each loss.
        shape: sizes of symbolic dimensions.
        target: of odtc; '' for this machine's cores with as many threads.
        module: maker of the PyTorch module, `package:callable` or `file.py:callable`; or ''.
        data: absolute path of the `.npz` whose first samples are the batch; '' for drawn ones.
        lr: learning rate of plain SGD; 0 until it is chosen.
        budget: of odtc's step, as `--memory-budget` takes it; '' for none.
        memory_limit: bytes that the process of an engine may have; 0 for no limit.
        root: folder that processes run in, from which modules are imported; '' for this one.
    """

    model: str
    batch: int
    threads: int
    loss: tuple[str, ...] = ("cross-entropy",)
    shape: tuple[tuple[str, int], ...] = ()
    target: str = ""
    module: str = ""
    data: str = ""
    lr: float = 0.0
    budget: str = ""
    memory_limit: int = 0
    root: str = ""


def write_case(case: Case, folder: Path) -> None:
    """Writes a case; its batch is written by `write_batch`."""
    (folder / _ABOUT).write_text(json.dumps(dataclasses.asdict(case)))


def read_case(folder: Path) -> Case:
    """Reads the case that `write_case` wrote there."""
    data = json.loads((folder / _ABOUT).read_text())
    data["loss"] = tuple(data["loss"])
    data["shape"] = tuple((name, size) for name, size in data["shape"])
    return Case(**data)


def write_batch(x: Arrays, y: Arrays, folder: Path) -> None:
    """Writes inputs and labels by name, in this order."""
    for stem, arrays in (("x", x), ("y", y)):
        np.savez(folder / f"{stem}.npz", **arrays)  # pyright: ignore[reportArgumentType]


def read_batch(folder: Path) -> tuple[Arrays, Arrays]:
    """Reads the batch that `write_batch` wrote there."""
    x, y = (dict(np.load(folder / f"{stem}.npz")) for stem in ("x", "y"))
    return x, y
