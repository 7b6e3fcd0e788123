"""A small model as an ONNX file, with batches, for the options of a step to be tried on."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import onnx
from torch import nn

import odtc
from benchmarks.models.pytorch.export import export
from benchmarks.models.pytorch.spec import TorchModel, batches, make
from odtc.backends.targets import parse_target
from tests.native.parity import TARGET

_PRODUCTS = ("Conv", "Gemm", "MatMul")


@dataclass(frozen=True)
class Subject:
    """A model of the table, and the files that are made of it.

    Attributes:
        model: of the table.
        folder: for its files.
        target: what it is compiled for; by default for the most threads that are compared.
    """

    model: TorchModel
    folder: Path
    target: str = TARGET

    def file(self, dropout: float = 0.0, *, is_symbolic: bool = False) -> Path:
        """The ONNX file.

        Args:
            dropout: probability of each Dropout of the module.
            is_symbolic: whether the batch has no number yet, as micro-batches need it.
        """
        path = self.folder / f"{dropout}-{is_symbolic}.onnx"
        if not path.exists():
            module = make(self.model)
            for part in dropouts(module):
                part.p = dropout
            inputs, _ = self.batches(1)[0]
            export(module, inputs, path, batch="N" if is_symbolic else None)
        return path

    def batches(self, count: int) -> list[tuple[dict[str, Any], Any]]:
        """The first batches of its random data."""
        return list(islice(batches(self.model), count))

    def compiled(self, path: Path, **options: Any) -> odtc.Artifact:
        """The artifact; `fast_storage` is for a storage that is worth its while."""
        target = parse_target(self.target)
        if options.pop("fast_storage", False):
            target = replace(target, storage_write=10**12, storage_read=10**12)
        model = self.model
        return odtc.compile(path, target, batch=model.batch, loss=model.loss, **options)

    @cached_property
    def arena_bytes(self) -> int:
        """Of the plain step."""
        return self.compiled(self.file()).memory.arena_bytes

    @property
    def has_dropout(self) -> bool:
        """Whether the module has one, whatever its probability."""
        return any(True for _ in dropouts(make(self.model)))


def dropouts(module: nn.Module) -> Iterator[nn.modules.dropout._DropoutNd]:
    """The Dropouts of a module."""
    kind = nn.modules.dropout._DropoutNd
    return (each for each in module.modules() if isinstance(each, kind))


def products(path: Path) -> list[str]:
    """Names of the weights of products, but for convolutions in groups: LoRA takes these."""
    graph = onnx.load(path).graph
    weights = {each.name for each in graph.initializer if len(each.dims) > 1}
    return [
        node.input[1]
        for node in graph.node
        if node.op_type in _PRODUCTS
        and node.input[1] in weights
        and all(each.i == 1 for each in node.attribute if each.name == "group")
    ]
