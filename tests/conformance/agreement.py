"""`python -m tests.conformance.agreement`: whether `odtc check` and compile agree on ONNX's models.

Each model is asked for as it is, and, where it has an input of float32, once more with a parameter
added to that, so that there is something to train. Inputs of integers have the values that ONNX's
test feeds. The nine image classifiers are not among them: ONNX makes these when they run.
"""

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.backend.test.loader import load_model_tests

from tests.fuzz.verdict import Outcome, agreement
from tests.workers import Limits, run_cases

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator")
LIMITS = Limits(processor_seconds=120.0, wall_seconds=600.0)
_DRAWN = np.random.default_rng(0)


@cache
def _models() -> dict[str, Any]:
    np.random.seed(0)
    return {f"{kind}/{each.name}": each for kind in KINDS for each in load_model_tests(kind=kind)}


def names() -> list[str]:
    """All models, as they are and with a parameter."""
    return [f"{name}{way}" for name in sorted(_models()) for way in ("", "+parameter")]


def attempt(name: str) -> Outcome:
    """Runs check and compile on a model; see `agreement`."""
    key, _, way = name.partition("+")
    test = _models()[key]
    model = test.model if test.model else onnx.load(Path(test.model_dir) / "model.onnx")
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    if way and not _add_parameter(changed):
        return Outcome("none", "no input of float32")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(changed.SerializeToString())
        options: dict[str, Any] = {"loss": "mse", "set": _values(test, changed)}
        return agreement(path, options | ({"train": "added"} if way else {}))


def _add_parameter(model: onnx.ModelProto) -> bool:
    """Adds a parameter to the first input that holds float32; False if there is none."""
    graph = model.graph
    floats = [v for v in graph.input if v.type.tensor_type.elem_type == TensorProto.FLOAT]
    if not floats:
        return False
    name, rank = floats[0].name, len(floats[0].type.tensor_type.shape.dim)
    value = _DRAWN.standard_normal((1,) * rank).astype(np.float32)
    for node in graph.node:
        for at, read in enumerate(node.input):
            if read == name:
                node.input[at] = "moved"
    graph.node.insert(0, helper.make_node("Add", [name, "added"], ["moved"]))
    graph.initializer.append(numpy_helper.from_array(value, "added"))
    return True


def _values(test: Any, model: onnx.ModelProto) -> dict[str, Any]:
    """Returns the test's values for inputs of other types."""
    if not test.data_sets:
        return {}
    fed = zip(model.graph.input, test.data_sets[0][0], strict=False)
    kinds = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.BFLOAT16)
    return {
        value.name: array
        for value, array in fed
        if isinstance(array, np.ndarray)
        and array.dtype.kind in "biu"
        and value.type.tensor_type.elem_type not in kinds
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Runs; 1 where they disagree on a model."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.agreement")
    parser.add_argument("--workers", type=int, help="processes (default: one a core)")
    args = parser.parse_args(argv)
    counts: Counter[str] = Counter()
    for ended in run_cases(attempt, names(), workers=args.workers, limits=LIMITS):
        outcome = Outcome("fault", ended.failure) if ended.failure else ended.result
        counts[outcome.kind] += 1
        if outcome.kind == "fault":
            print(f"{ended.case}: {outcome.detail[:400]}", file=sys.stderr, flush=True)
    print(", ".join(f"{count} {kind}" for kind, count in sorted(counts.items())))
    return int(bool(counts["fault"]))


if __name__ == "__main__":
    raise SystemExit(main())
