"""An ONNX file that is evaluated as a step is, by onnxruntime where it is installed.

What a step's manifest would say is found in the file: its inputs, its classes and the names of
columns, as an export wrote them, and, by one run on zeros, the shapes of its outputs.
"""

import os
from collections.abc import Mapping

import numpy as np
import onnx

from odtc.core.artifact.manifest import Evaluation, Manifest, Sizes
from odtc.core.errors import ModelError, UnsupportedError
from odtc.core.ir.place import Place
from odtc.core.specs import Argument, Role, TensorSpec
from odtc.runtime_rpc.evaluations import Evaluations
from odtc.runtime_rpc.export.engine import InferenceEngine, brief, load_engine
from odtc.runtime_rpc.export.inputs import table_rows
from odtc.runtime_rpc.export.names import class_counts_in, class_names_in, column_names_in
from odtc.runtime_rpc.loop.history import Progress
from odtc.runtime_rpc.predictions.classes import labels_of_classes

# Samples that are evaluated at a time, where the file takes any number.
_BATCH = 16


class OnnxPredictor:
    """A model in an ONNX file, as predictions see a trainer.

    Args:
        path: of the file.

    Attributes:
        manifest: what is known of its inputs and outputs.
        progress: the names of classes and columns that the file has, as a run's progress has them.

    Raises:
        ModelError: the file cannot be read or run.
        UnsupportedError: nothing runs it, or an input has sizes that are not fixed.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        where = os.fspath(path)
        try:
            model = onnx.load(path, load_external_data=False)
        except Exception as error:  # Protobuf's, and those of the disk.
            raise ModelError(
                f"not a readable ONNX file ({brief(error)})", where=where, hint="check the path"
            ) from error
        engine, reasons = load_engine(path)
        if engine is None:
            raise UnsupportedError(f"nothing runs the model: {'; '.join(reasons)}", where=where)
        inputs = _inputs(model, where)
        self.manifest = _manifest(model, inputs, _outputs(engine, inputs, where), where)
        self.progress = Progress(
            class_names=class_names_in(model), column_names=column_names_in(model)
        ).to_text()
        self._columns = column_names_in(model)
        self._evaluations = Evaluations(self.manifest, _Runs(engine, where))  # type: ignore[arg-type]

    def can_fill_rows(self) -> bool:
        """See `Trainer.can_fill_rows`: a file has one size, or rows of any."""
        return False

    def _evaluated(
        self, x: Mapping[str, np.ndarray], output: str | None, *, ema: bool
    ) -> np.ndarray:
        """An output for any number of samples; see `Trainer.evaluate`."""
        assert not ema
        return self._evaluations.of(x, output, {})


class _Runs:
    """What evaluates a batch, as an engine of a trainer does."""

    def __init__(self, engine: InferenceEngine, where: str) -> None:
        self._engine, self._where = engine, where

    def evaluate(
        self, evaluation: Evaluation, arrays: Mapping[Argument, np.ndarray], _: object
    ) -> np.ndarray:
        """See `Engine.evaluate`."""
        feeds = {item.spec.name: array for item, array in arrays.items()}
        return _run(self._engine, feeds, self._where)[evaluation.output.name]


def _run(
    engine: InferenceEngine, feeds: Mapping[str, np.ndarray], where: str
) -> dict[str, np.ndarray]:
    try:
        found = engine.run(feeds)
    except Exception as error:  # Each library has exceptions of its own.
        raise ModelError(
            f"{engine.name} cannot run the model: {brief(error)}", where=where
        ) from error
    return {name: value for name, value in found.items() if isinstance(value, np.ndarray)}


def _inputs(model: onnx.ModelProto, where: str) -> list[Argument]:
    """The inputs, with samples along axis 0 where the first size is open.

    Raises:
        UnsupportedError: another size is open, or an input is no tensor.
    """
    stored = {tensor.name for tensor in model.graph.initializer}
    values = [value for value in model.graph.input if value.name not in stored]
    rows, found = table_rows(model.graph), []
    for value in values:
        kind = value.type.tensor_type
        sizes = [dim.dim_value if dim.HasField("dim_value") else 0 for dim in kind.shape.dim]
        if not kind.elem_type or not kind.HasField("shape") or 0 in sizes[1:]:
            raise UnsupportedError(
                f"the input {value.name} has sizes that are not fixed, in addition to the number "
                "of samples",
                where=where,
                hint="compile it with --shape NAME=N, and predict with the artifact",
            )
        dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type).name
        shape = (sizes[0] or _BATCH, *sizes[1:]) if sizes else ()
        place = Place(0) if sizes else None
        spec, most = TensorSpec(value.name, shape, dtype), rows.get(value.name, 0)
        found.append(Argument(Role.INPUT, spec, place=place, rows=most))
    return found


def _outputs(
    engine: InferenceEngine, inputs: list[Argument], where: str
) -> list[tuple[TensorSpec, Place | None]]:
    """The outputs of a batch of zeros, and whether samples lie along their axis 0."""
    feeds = {item.spec.name: np.zeros(item.spec.shape, item.spec.dtype) for item in inputs}
    batch = next((item.spec.shape[0] for item in inputs if item.place), 0)
    return [
        (
            TensorSpec(name, array.shape, array.dtype.name),
            Place(0) if array.ndim and array.shape[0] == batch else None,
        )
        for name, array in _run(engine, feeds, where).items()
    ]


def _manifest(
    model: onnx.ModelProto,
    inputs: list[Argument],
    outputs: list[tuple[TensorSpec, Place | None]],
    where: str,
) -> Manifest:
    names = tuple(item.spec.name for item in inputs)
    said, known = class_counts_in(model), [spec.name for spec, _ in outputs]
    labels = labels_of_classes({name: said[name] for name in known if name in said}, _BATCH)
    return Manifest(
        odtc="",
        tvm="",
        target="",
        triple="",
        model=os.path.basename(where),
        model_sha256="",
        loss="",
        optimizer={},
        update={},
        precision="float32",
        micro_batches=1,
        arguments=(*inputs, *labels),
        plans=(),
        evaluations=tuple(Evaluation("", spec, names, place) for spec, place in outputs),
        sizes=Sizes(0, 0, 0, 0, 0),
    )
