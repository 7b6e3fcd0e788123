"""Writes a trained model as an ONNX file, in the form in which it is deployed."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from odtc.core.artifact.bundle import Bundle
from odtc.core.finite import LAST_CHECKPOINT, check_finite
from odtc.core.onnx_model.inference_form import to_inference
from odtc.core.onnx_model.large_files import is_beside, new_model_file, said_of
from odtc.core.onnx_model.new_head import write_new_head
from odtc.core.onnx_model.shared_tensors import model_in
from odtc.core.onnx_model.weights import fill_weights
from odtc.runtime_rpc.export.check import Evaluate, ExportCheck, check_file
from odtc.runtime_rpc.export.names import write_names
from odtc.runtime_rpc.predictions.classes import class_counts

_UNCHECKED = ExportCheck(difference=None)


@dataclass(frozen=True)
class Exported:
    """An exported file, and how it was checked.

    Attributes:
        path: of the file.
        form: `inference` or `training`.
        changes: changes of the model in its inference form.
        engine: name of the engine that ran it; '' for none.
        batches: numbers of samples that it was run with.
        difference: largest from `evaluate`, over the output's largest element; None where
            nothing was compared.
        notes: what was not compared, and why.
    """

    path: str
    form: str
    changes: tuple[str, ...] = ()
    engine: str = ""
    batches: tuple[int, ...] = ()
    difference: float | None = None
    notes: tuple[str, ...] = ()

    def as_data(self) -> dict[str, Any]:
        """All but the path, for JSON."""
        return {name: value for name, value in asdict(self).items() if name != "path"}

    def __str__(self) -> str:
        changed = f" ({', '.join(self.changes)})" if self.changes else ""
        if not self.batches:
            return f"exported {self.path}: {self.form} form{changed}, not checked"
        at = " and ".join(map(str, sorted(self.batches)))
        compared = (
            "not compared"
            if self.difference is None
            else f"largest difference {self.difference:.1g}"
        )
        return (
            f"exported {self.path}: {self.form} form{changed}, run by {self.engine} at batch {at}, "
            f"{compared}"
        )


def write_model(
    path: str | os.PathLike[str],
    bundle: Bundle,
    weights: Mapping[str, np.ndarray],
    evaluate: Evaluate | None,
    *,
    training: bool = False,
    class_names: Sequence[str] = (),
    column_names: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> Exported:
    """Writes the model of an artifact with other weights, whole and checked or not at all.

    Args:
        path: of the new file.
        bundle: the artifact.
        weights: all of them, adapters merged.
        evaluate: reference to compare the file with; None to write it unchecked.
        training: whether the file keeps the form in which the model was compiled.
        class_names: by their numbers, which the file gets as metadata; none for no change of it.
        column_names: of each input that is made of columns, in their order; the same.

    Raises:
        NumericError: a weight is not finite.
        OutputError: the file cannot be written.
        ParityError: the file does not compute what `evaluate` does.
        UnsupportedError: the model has no inference form.
    """
    check_finite(weights, "export", LAST_CHECKPOINT)
    model = model_in(bundle)
    fill_weights(model, dict(weights))
    # It is trained now.
    write_new_head(model, ())
    write_names(model, class_names, column_names, class_counts(bundle.manifest))
    changes = () if training else to_inference(model)
    check = _UNCHECKED
    with new_model_file(model, path) as temporary:
        if evaluate is not None and not training:
            check = check_file(temporary, model, bundle.manifest, evaluate, os.fspath(path))
    return Exported(
        os.fspath(path),
        "training" if training else "inference",
        changes,
        check.engine,
        tuple(check.batches),
        check.difference,
        (*check.notes, *([said_of(path)] if is_beside(model) else [])),
    )
