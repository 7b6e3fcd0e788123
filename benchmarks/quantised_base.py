"""Steps of adapters over bases of few bits: `python -m benchmarks.quantised_base`.

Some layers of SmolLM2-135M's shape, with LoRA of rank 8 beside all of their matrices. Their weights
are multiples of a scale for each 32 columns, so that float32 and int4 have the same values. Steps
are taken in turns in one process. Times are of the processor, of one thread.
"""

import argparse
import sys
import time
from collections.abc import Callable, Mapping
from itertools import starmap
from pathlib import Path
from tempfile import TemporaryDirectory

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper, version_converter

import odtc
from benchmarks.models.decoder import DecoderShape, decoder
from benchmarks.output import about, introduce, terminal
from odtc.comparison.measures.measure import spread

_TURNS, _WARM_UP, _BLOCK = 21, 3, 32
# DequantizeLinear takes blocks.
_OPSET = 21
_MATRIX = 2

# From codes of -7 to 7 and a scale for each block of a row: the tensors that stand for a matrix,
# the matrix first, and attributes of the node that makes floats of them.
Form = Callable[[np.ndarray, np.ndarray], tuple[list[np.ndarray], dict[str, int]]]


def _whole(codes: np.ndarray, scale: np.ndarray) -> np.ndarray:
    return codes * np.repeat(scale, _BLOCK, 1)


def _by_rows(codes: np.ndarray, scale: np.ndarray) -> tuple[list[np.ndarray], dict[str, int]]:
    value = _whole(codes, scale)
    row = (np.abs(value).max(1) / 127).astype(np.float32)
    return [np.rint(value / row[:, None]).astype(np.int8), row], {"axis": 0}


FORMS: Mapping[str, Form] = {
    "float32": lambda codes, scale: ([_whole(codes, scale)], {}),
    "float16": lambda codes, scale: (
        [_whole(codes, scale).astype(np.float16)],
        {"to": TensorProto.FLOAT},
    ),
    "int8 by rows": _by_rows,
    "int4 by blocks": lambda codes, scale: (
        [codes.astype(ml_dtypes.int4), scale],
        {"axis": 1, "block_size": _BLOCK},
    ),
}


def base_of(shape: DecoderShape, form: Form) -> onnx.ModelProto:
    """A decoder whose matrices are stored in a form."""
    model = version_converter.convert_version(decoder(shape), _OPSET)
    graph, rng, made = model.graph, np.random.default_rng(0), list[onnx.NodeProto]()
    weights = [each for each in graph.initializer if each.name.endswith(".weight")]
    for tensor in [each for each in weights if len(each.dims) == _MATRIX]:
        rows, columns = tensor.dims
        codes = rng.integers(-7, 8, (rows, columns)).astype(np.float32)
        scale = (rng.random((rows, columns // _BLOCK), np.float32) + 0.5) / 7 / columns**0.5
        (matrix, *others), attributes = form(codes, scale)
        tensor.CopyFrom(numpy_helper.from_array(matrix, name := tensor.name))
        if matrix.dtype == np.float32:
            continue
        names = [f"{name}_scale" for _ in others]
        graph.initializer.extend(map(numpy_helper.from_array, others, names))
        for node in graph.node:
            read = [f"{name}_floats" if each == name else each for each in node.input]
            node.input[:] = read
        kind = "DequantizeLinear" if others else "Cast"
        made.append(helper.make_node(kind, [name, *names], [f"{name}_floats"]))
        made[-1].attribute.extend(starmap(helper.make_attribute, attributes.items()))
    nodes = [*made, *graph.node]
    del graph.node[:]
    graph.node.extend(nodes)
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
            artifact = odtc.compile(path, batch=1, loss="mse", lora=odtc.LoRA(rank=8), params=[])
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
