"""A mutant: a model, or its bytes, and the files that lie beside it and outside."""

import os
import random
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
from onnx import ModelProto

from tests.fuzz.corpus import CORPUS

MODEL = "model.onnx"
# What no model may read: it lies beside the model's folder.
CANARY = "canary.bin"
CANARY_VALUE = np.float32(12345.678)
CANARY_BYTES = np.full(4096, CANARY_VALUE).tobytes()


@dataclass
class Mutant:
    """A model and its surroundings, as mutations change them.

    Attributes:
        model: the model.
        data: the bytes of the model's file; None is the model, serialized.
        files: others in the model's folder, by path.
        links: symbolic links in the model's folder: path to what it points to.
        outside: the folder above the model's, where the canary lies.
        options: of `odtc.compile`.
    """

    model: ModelProto
    outside: Path
    data: bytes | None = None
    files: dict[str, bytes] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    options: dict[str, object] = field(default_factory=lambda: {"batch": 2})

    def serialized(self) -> bytes:
        """The bytes of the model's file."""
        return self.model.SerializeToString() if self.data is None else self.data

    def write(self) -> Path:
        """Writes everything and returns the path of the model."""
        folder = self.outside / "model"
        folder.mkdir(parents=True)
        (self.outside / CANARY).write_bytes(CANARY_BYTES)
        for name, data in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        for name, target in self.links.items():
            os.symlink(target, folder / name)
        path = folder / MODEL
        path.write_bytes(self.serialized())
        return path


def make_mutant(mutation: str, family: str, seed: int, outside: Path) -> Mutant:
    """The mutant of that name; the same for the same arguments."""
    from tests.fuzz.mutations import MUTATIONS

    rng = random.Random(f"{mutation}/{family}/{seed}")
    mutant = Mutant(CORPUS[family](), outside)
    MUTATIONS[mutation](rng, mutant)
    return mutant


def nodes_of(model: onnx.ModelProto) -> list[onnx.NodeProto]:
    """All nodes of the graph, those of subgraphs and functions too."""
    found = []
    stack = [*model.graph.node, *(node for item in model.functions for node in item.node)]
    while stack:
        node = stack.pop()
        found.append(node)
        for attribute in node.attribute:
            stack.extend(attribute.g.node)
    return found
