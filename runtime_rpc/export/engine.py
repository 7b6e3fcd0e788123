"""Engines that run an exported file: onnxruntime where it is installed, else ONNX's reference."""

import importlib
import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

_LONGEST = 200
_ERRORS_ONLY = 4

# Arrays, but where a model gives lists or maps.
Results = dict[str, Any]


@dataclass(frozen=True)
class InferenceEngine:
    """A file that is loaded.

    Attributes:
        name: with version.
        is_reference: whether it is the slow one.
        run: from inputs to outputs, by name.
    """

    name: str
    is_reference: bool
    run: Callable[[Mapping[str, np.ndarray]], Results]


def load_engine(
    path: str | os.PathLike[str], *, is_frugal: bool = False
) -> tuple[InferenceEngine | None, list[str]]:
    """The first engine that can load a file, and the reasons why those before it cannot.

    Args:
        path: of the file.
        is_frugal: whether weights are read where they lie in their file, and memory is given back
            after each run, which takes longer.
    """
    reasons = []
    for name, load in _loaders():
        try:
            return load(path, is_frugal), reasons
        except Exception as error:  # Each library has exceptions of its own.
            reasons.append(f"{name} does not take the file: {brief(error, os.fspath(path))}")
    return None, reasons


def brief(error: Exception, path: str = "") -> str:
    """Shortens another library's error to one line; the cause is at its end.

    Args:
        error: of the library.
        path: of a file that it may name, and that is not there any more when the line is read.
    """
    said = str(error).replace(path, "it") if path else str(error)
    lines = said.strip().splitlines() or [type(error).__name__]
    return lines[0] if len(lines[0]) <= _LONGEST else f"...{lines[0][-_LONGEST:]}"


def _loaders() -> Iterator[tuple[str, Callable[[str | os.PathLike[str], bool], InferenceEngine]]]:
    if find_spec("onnxruntime"):
        yield "onnxruntime", _onnxruntime
    yield "ONNX's reference", _reference


def _imported(name: str) -> Any:
    """Imports a package in a thread of its own.

    Parts of onnxruntime that fail to be imported keep their exception, and with it the frames that
    they were imported from, and all that these hold: a trainer, say, for as long as the process is.
    """
    with ThreadPoolExecutor(1) as aside:
        return aside.submit(importlib.import_module, name).result()


def _onnxruntime(path: str | os.PathLike[str], is_frugal: bool) -> InferenceEngine:
    onnxruntime = _imported("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = _ERRORS_ONLY
    if is_frugal:
        # Optimising makes transposed and packed copies of weights.
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.add_session_config_entry("session.disable_prepacking", "1")
        options.enable_cpu_mem_arena = options.enable_mem_pattern = False
    session = onnxruntime.InferenceSession(
        os.fspath(path), options, providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in session.get_outputs()]

    def run(feeds: Mapping[str, np.ndarray]) -> Results:
        return dict(zip(names, session.run(names, dict(feeds)), strict=True))

    return InferenceEngine(f"onnxruntime {onnxruntime.__version__}", False, run)


def _reference(path: str | os.PathLike[str], _: bool) -> InferenceEngine:
    import onnx
    from onnx.reference import ReferenceEvaluator
    from onnx.reference.op_run import OpRun

    class BatchNormalization(OpRun):
        """Batch normalisation in inference; the reference's trains, in opsets from 7 to 13."""

        def _run(self, x: Any, *given: Any, epsilon: float = 1e-5, **_: Any) -> tuple[Any]:
            along = (-1, *[1] * (x.ndim - 2))
            scale, bias, mean, variance = (each.reshape(along) for each in given)
            return ((scale * (x - mean) / np.sqrt(variance + epsilon) + bias).astype(x.dtype),)

    evaluator = ReferenceEvaluator(os.fspath(path), new_ops=[BatchNormalization])

    def run(feeds: Mapping[str, np.ndarray]) -> Results:
        # It warns of infinities and divisions that the model intends.
        with np.errstate(all="ignore"):
            results = evaluator.run(None, dict(feeds))
        return {str(k): v for k, v in zip(evaluator.output_names, results, strict=True)}

    return InferenceEngine(f"ONNX's reference {onnx.__version__}", True, run)
