"""PyTorch's exporters, as one calls them for a model that is to be trained.

    python -m benchmarks.models.pytorch.export resnet18 --exporter torchscript -o resnet18.onnx

Both fold what training needs unless they are told not to. The TorchScript exporter folds batch
normalisation into convolutions in inference mode. The other one, `dynamo`, does so in any mode
while it optimises, writes transposed copies of weights under new names, and looks up embeddings of
constant positions: so it must not optimise. `dynamo-default` lets it, and is for models whose
weights survive that.
"""

import argparse
import contextlib
import io
import logging
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

EXPORTERS: dict[str, dict[str, Any]] = {
    "torchscript": {
        "dynamo": False,
        # Modules are in training mode, but for what is frozen there in inference mode.
        "training": torch.onnx.TrainingMode.PRESERVE,
        "do_constant_folding": False,
    },
    "dynamo": {"dynamo": True, "optimize": False, "verbose": False},
    "dynamo-default": {"dynamo": True, "verbose": False},
}


def export(
    module: nn.Module,
    inputs: Mapping[str, np.ndarray],
    path: Path,
    exporter: str = "torchscript",
    *,
    batch: str | None = None,
) -> None:
    """Writes a module, in its mode, as ONNX, of the batch of `inputs` or of a symbolic one.

    Args:
        module: its state is as before afterwards, though the exporters run it.
        inputs: example data by the name of the ONNX input, in the order of `forward`.
        path: of the ONNX file; weights may lie beside it, in a file that it names.
        exporter: one of `EXPORTERS`.
        batch: name of a symbolic batch, which TorchScript's exporter can give.
    """
    state = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    arguments = tuple(torch.from_numpy(array) for array in inputs.values())
    with _quiet():
        options = dict(EXPORTERS[exporter])
        if batch is not None:
            options["dynamic_axes"] = {name: {0: batch} for name in inputs}
        torch.onnx.export(module, arguments, path, input_names=list(inputs), **options)
    module.load_state_dict(state)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without the exporters' warnings, which concern the example data and other exporters."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def _main() -> None:
    from benchmarks.models.pytorch.spec import batches, make
    from benchmarks.models.pytorch.table import FULL, SMALL

    parser = argparse.ArgumentParser(description="Writes a model with random weights as ONNX.")
    parser.add_argument("name", choices=FULL)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--exporter", choices=EXPORTERS, default="torchscript")
    parser.add_argument("--small", action="store_true", help="the size that tests use")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    table = SMALL if options.small else FULL
    if options.name not in table:
        parser.error(f"{options.name} has no small size; there are {', '.join(SMALL)}")
    model = table[options.name]
    inputs, _ = next(batches(model, options.seed))
    export(make(model, options.seed), inputs, options.output, options.exporter)


if __name__ == "__main__":
    _main()
