"""The case of every engine: a model, one batch of random data, and a learning rate."""

import dataclasses
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import onnx

from benchmarks.models.digits import digits_model
from benchmarks.models.zoo import zoo_model, zoo_names

if TYPE_CHECKING:
    from torch import nn

# What is compared where no models are named: exports from PyTorch.
NETWORKS = (
    "lenet",
    "squeezenet",
    "mobilenet_v2",
    "shufflenet_v2",
    "googlenet",
    "resnet18",
    "resnet50",
    "densenet121",
    "vgg16",
    "bert_tiny",
    "char_lstm",
)
# At larger rates the loss on random images jumps, and rounding alone drives any two engines apart.
ZOO_LR = 2e-5


@dataclass(frozen=True)
class StepCase:
    """A model and what it is trained on.

    Attributes:
        name: of the model.
        model: in ONNX.
        x: one batch of inputs, by the name of the ONNX input.
        y: its labels.
        lr: learning rate.
        loss: as odtc's options have it.
        module: what the model was exported from; None where there is only the ONNX file.
        threads: worker threads of each engine.
        frozen: names of the scales and shifts of batch normalisations, where these are frozen and
            in inference mode.
    """

    name: str
    model: onnx.ModelProto
    x: Mapping[str, np.ndarray]
    y: np.ndarray
    lr: float
    loss: str = "cross-entropy"
    module: "nn.Module | None" = None
    threads: int = 1
    frozen: tuple[str, ...] = ()

    @property
    def batch(self) -> int:
        """Samples in a step."""
        return len(self.y)


def names() -> tuple[str, ...]:
    """Every model that there is a case for: `digits`, PyTorch's, and `zoo/NAME`."""
    from benchmarks.models.pytorch.table import FULL

    return ("digits", *FULL, *(f"zoo/{name}" for name in zoo_names()))


def case_of(name: str, batch: int | None = None, *, symbolic: bool = False) -> StepCase:
    """A model with one batch of random inputs and labels.

    Args:
        name: one of `names()`.
        batch: samples; the usual number for the model where it is None.
        symbolic: whether an export from PyTorch takes any batch, which micro-batches may need.
    """
    rng = np.random.default_rng(0)
    if name == "digits":
        x = rng.random((batch or 32, 1, 8, 8), np.float32)
        model = digits_model()
        return StepCase(name, model, {fed(model): x}, rng.integers(0, 10, len(x)), 0.01)
    if name.startswith("zoo/"):
        x = rng.standard_normal((batch or 4, 3, 224, 224), np.float32)
        model = zoo_model(name.removeprefix("zoo/"))
        return StepCase(name, model, {fed(model): x}, rng.integers(0, 1000, len(x)), ZOO_LR)
    return _exported(name, batch, symbolic)


def fed(model: onnx.ModelProto) -> str:
    """Name of the only input that is no initializer."""
    initializers = {tensor.name for tensor in model.graph.initializer}
    (name,) = (value.name for value in model.graph.input if value.name not in initializers)
    return name


def _exported(name: str, batch: int | None, symbolic: bool) -> StepCase:
    """PyTorch's module, and its export."""
    from benchmarks.models.pytorch.export import export
    from benchmarks.models.pytorch.spec import batches, make, norm_parameters
    from benchmarks.models.pytorch.table import FULL

    entry = FULL[name]
    entry = dataclasses.replace(entry, batch=batch or entry.batch)
    module = make(entry)
    x, y = next(batches(entry))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.onnx")
        export(module, x, path, batch="batch" if symbolic else None)
        model = onnx.load(path)
    frozen = tuple(norm_parameters(module)) if entry.frozen_norms else ()
    return StepCase(name, model, x, y, entry.lr, entry.loss, module, frozen=frozen)
