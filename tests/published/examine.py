"""One file in a worker process: checked, compiled, run, trained and exported."""

import tempfile
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import odtc
from odtc.artifact import Artifact
from odtc.backends.targets import parse_target
from odtc.core.errors import DeviceError, NumericError, OdtcError, ParityError, UnsupportedError
from odtc.core.specs import Role
from odtc.driver.examination import examine
from odtc.driver.options.step_options import StepOptions
from odtc.runtime_rpc.trainer import Trainer
from tests.published.gradient import gradient_difference
from tests.published.options import Case
from tests.published.outcome import Outcome, Word
from tests.published.steps import falls, losses_of_steps
from tests.published.values import Values, difference, ran, session

FORWARD, GRADIENT = 1e-5, 2e-2


def check(case: Case) -> Outcome:
    """All that is tried of a file."""
    with warnings.catch_warnings(), tempfile.TemporaryDirectory(prefix="odtc-published-") as place:
        warnings.simplefilter("ignore")
        return _judged(case, Path(place))


def _judged(case: Case, place: Path) -> Outcome:
    passed = False
    found = Outcome(Word.EQUAL)
    try:
        arguments = _checked(case)
        passed = True
        for stage in _stages(case, arguments, place):
            found = stage
    except (DeviceError, ParityError, NumericError) as error:
        return replace(found, word=Word.WRONG, reason=_first(error))
    except OdtcError as error:
        word, told = (
            (Word.WRONG, "`odtc check` passes it; compile: ") if passed else (Word.REFUSED, "")
        )
        return replace(found, word=word, reason=told + _first(error))
    except Exception as error:
        where = traceback.format_exc(limit=-4)
        reason = f"{_first(error)}\n{where}".replace(case.path, Path(case.path).name)
        return replace(found, word=Word.FAULT, reason=reason)
    return _bounded(found)


def _first(error: Exception) -> str:
    text = (str(error).strip().splitlines() or [""])[0]
    hint = error.hint if isinstance(error, OdtcError) else ""
    return f"{type(error).__name__}: {text}{f' ({hint})' if hint else ''}"[:400]


def _checked(case: Case) -> dict[str, Any]:
    """How the file is compiled, where `odtc check` says that it can be trained.

    Batch normalisations keep their statistics, so that training computes what onnxruntime does:
    what is trained of their file are the weights that are no vectors.
    """
    arguments = case.options.arguments()
    report = examine(case.path, parse_target("host-cpu"), StepOptions(**arguments))
    blocked = [node for node in report.nodes if node.blocks]
    if blocked:
        raise UnsupportedError(f"{blocked[0].op_type} cannot be trained: {blocked[0].reason}")
    if any(node.op_type == "BatchNormalization" for node in report.nodes):
        large = [spec.name for spec in report.parameters if len(spec.shape) > 1]
        arguments |= {"train": large, "freeze_batch_norm": True}
    return arguments


def _stages(case: Case, arguments: dict[str, Any], place: Path) -> Iterator[Outcome]:
    """The outcome so far, after each stage."""
    artifact = odtc.compile(case.path, **arguments, dropout=False)
    trainer = artifact.trainer(threads=1)
    found = Outcome(Word.EQUAL, parameters=len(artifact.manifest.of_role(Role.PARAMETER)))
    yield found
    values = Values.of(artifact.manifest, case.options)
    reference = _reference(case, values, artifact)
    found = replace(found, forward=_forward(artifact, trainer, values, reference))
    yield found
    found = replace(found, losses=losses_of_steps(artifact.manifest, trainer, values)[0])
    yield found
    exported = place / "exported.onnx"
    trainer.export_onnx(exported)
    after = ran(exported, values, artifact.manifest.bound)
    found = replace(found, export=_forward(artifact, trainer, values, after))
    yield found
    yield replace(found, gradient=gradient_difference(artifact, values, place))


def _reference(case: Case, values: Values, artifact: Artifact) -> dict[str, np.ndarray]:
    """Returns onnxruntime's outputs of the file."""
    if not case.reference:
        return ran(case.path, values, artifact.manifest.bound)
    names = [item.name for item in session(case.reference).get_inputs()]
    inputs = dict(zip(names, values.inputs.values(), strict=True))
    outputs = ran(case.reference, replace(values, inputs=inputs), {})
    return dict(
        zip((e.output.name for e in artifact.manifest.evaluations), outputs.values(), strict=True)
    )


def _forward(
    artifact: Artifact, trainer: Trainer, values: Values, expected: dict[str, np.ndarray]
) -> float:
    outputs = [item.output.name for item in artifact.manifest.evaluations]
    return max(
        difference(trainer.evaluate(values.inputs, name), expected[name], values.is_class)
        for name in outputs
        if name in expected
    )


def _bounded(found: Outcome) -> Outcome:
    """The outcome by its numbers."""
    bounds = (
        ("evaluate", found.forward, FORWARD),
        ("the exported file", found.export, FORWARD),
        ("the gradient", found.gradient, GRADIENT),
    )
    for what, value, bound in bounds:
        if value is not None and not value <= bound:
            return replace(found, word=Word.WRONG, reason=f"{what} is off by {value:.1e}")
    if not falls(found.losses):
        return replace(found, word=Word.WRONG, reason="the loss falls at no learning rate")
    return found
