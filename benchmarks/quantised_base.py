"""Steps of adapters over bases of few bits: `python -m benchmarks.quantised_base`.

Some layers of SmolLM2-135M's shape, with LoRA of rank 8 beside all of their matrices. Their weights
are multiples of a scale for each 32 columns, so that float32 and int4 have the same values. Steps
are taken in turns in one process. Times are of the processor, of one thread.
"""

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnx
from onnx import version_converter

import odtc
from benchmarks.models.decoder import DecoderShape, decoder
from benchmarks.models.stored import BLOCK, FORMS, OPSET, Form, store
from benchmarks.output import about, introduce, terminal
from odtc.comparison.measures.measure import spread

_TURNS, _WARM_UP = 21, 3


def base_of(shape: DecoderShape, form: Form) -> onnx.ModelProto:
    """A decoder whose matrices are stored in a form."""
    model = version_converter.convert_version(decoder(shape), OPSET)
    rng = np.random.default_rng(0)

    def codes_of(tensor: onnx.TensorProto) -> tuple[np.ndarray, np.ndarray]:
        rows, columns = tensor.dims
        codes = rng.integers(-7, 8, (rows, columns)).astype(np.float32)
        scale = (rng.random((rows, columns // BLOCK), np.float32) + 0.5) / 7 / columns**0.5
        return codes, scale

    store(model.graph, form, codes_of)
    return model


def main() -> int:
    """Measures, and prints a line for each form."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quantised_base")
    parser.add_argument("--layers", type=int, default=2, metavar="")
    parser.add_argument("--tokens", type=int, default=128, metavar="")
    parser.add_argument("--vocabulary", type=int, default=2048, metavar="")
    given = parser.parse_args()
    shape = DecoderShape(given.layers, vocabulary=given.vocabulary, length=given.tokens)
    introduce(terminal(), about(), f"1 thread, {shape}, {_TURNS} steps in turns")
    rng = np.random.default_rng(1)
    ids = rng.integers(0, shape.vocabulary, (1, shape.length))
    labels = rng.standard_normal((1, shape.length, shape.vocabulary), np.float32)
    steps: dict[str, Callable[[], float]] = {}
    with TemporaryDirectory() as folder:
        path, saved = Path(folder) / "model.onnx", Path(folder) / "step.odtc"
        for name, form in FORMS.items():
            onnx.save(base_of(shape, form), path)
            artifact = odtc.compile(path, batch=1, loss="mse", lora=odtc.LoRA(rank=8), train=[])
            artifact.save(saved)
            trainer = artifact.trainer(threads=1)
            steps[name] = lambda trainer=trainer: trainer.step(ids, labels, 1e-3)
            print(
                f"{name}: arena {artifact.memory.arena_bytes:,} bytes, artifact "
                f"{saved.stat().st_size:,}, file {path.stat().st_size:,}, loss {steps[name]():.7f}",
                flush=True,
            )
        times: dict[str, list[float]] = {name: [] for name in steps}
        for turn in range(_WARM_UP + _TURNS):
            for name, step in steps.items():
                seconds = _seconds(step)
                if turn >= _WARM_UP:
                    times[name].append(1e3 * seconds)
    for name, taken in times.items():
        print(f"{name}: {spread(taken).text(digits=1)} ms")
    return 0


def _seconds(step: Callable[[], float]) -> float:
    began = time.process_time()
    step()
    return time.process_time() - began


if __name__ == "__main__":
    sys.exit(main())
