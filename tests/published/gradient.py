"""odtc's gradient against finite differences of what onnxruntime computes of exported files."""

import math
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import numpy as np

from odtc.artifact import Artifact
from odtc.core.artifact.manifest import Manifest
from odtc.core.specs import Role
from odtc.runtime_rpc.trainer import Trainer
from tests.published.values import Values, ran

# Of the parameter's length; the best one counts, as long ones bend and short ones round.
_STEPS = (1e-3, 3e-4, 3e-3, 1e-4, 1e-2, 3e-5, 1e-5, 3e-6, 1e-6)
_GOOD = 1e-3
_LEAST = 1e-3
# A loss of float32 numbers is known to some 1e-7 of itself, and differences are of moves up to a
# hundredth of a weight's length: below this they would be rounding, not a derivative.
_MEASURABLE = 1e-3
_TINY = 1e-30


def gradient_difference(artifact: Artifact, values: Values, place: Path) -> float:
    """The largest relative difference of a derivative, in two directions of two parameters.

    Args:
        artifact: of the file; it computes in training what the file does.
        values: one batch.
        place: a folder for exported files.
    """
    trainer = artifact.trainer(threads=1)
    output = artifact.manifest.evaluations[0].output.name
    start = trainer.parameters()
    at = trainer.step(values.inputs, values.label, lr=1.0)
    after = trainer.parameters()
    moved = {name: (start[name], after[name]) for name in start}
    names = _two(artifact.manifest, {n: weight_moves(*each, at) for n, each in moved.items()})
    if not names:
        return math.inf

    def loss(weights: Mapping[str, np.ndarray]) -> float:
        trainer.set_parameters({**start, **weights})
        trainer.export_onnx(place / "moved.onnx", verify=False)
        return _loss(ran(place / "moved.onnx", values, artifact.manifest.bound)[output], values)

    worst = 0.0
    for name in names:
        slope = _gradient(trainer, values, start, name)
        halves = np.random.default_rng(1).random(slope.shape) < 0.5
        for direction in (slope, slope * halves):
            move = partial(_moved, loss, name, start[name])
            worst = max(worst, _off(move, start[name], slope, direction))
    return worst


def _moved(
    loss: Callable[[Mapping[str, np.ndarray]], float],
    name: str,
    weight: np.ndarray,
    by: np.ndarray,
) -> float:
    """The loss where a weight is moved."""
    return loss({name: (weight + by).astype(weight.dtype)})


def weight_moves(before: np.ndarray, after: np.ndarray, loss: float) -> float:
    """By which part the loss changes where a weight moves by its own length, were it as steep.

    Args:
        before: the weight.
        after: the weight after a step of rate 1.
        loss: in front of the step.
    """
    exact = before.astype(np.float64)
    by = float(np.linalg.norm(exact)) * float(np.linalg.norm(exact - after))
    return by / max(abs(loss), _TINY)


def _two(manifest: Manifest, moves: Mapping[str, float]) -> list[str]:
    """The first and the last weight whose differences can be measured, and that is no vector.

    Where there is none, those that come closest.
    """
    specs = [i.spec for i in manifest.of_role(Role.PARAMETER) if moves[i.spec.name] > 0]
    names = [s.name for s in specs if len(s.shape) > 1] or [s.name for s in specs]
    ranked = sorted(names, key=moves.__getitem__)[-2:]
    names = [name for name in names if moves[name] >= _MEASURABLE] or ranked
    return list(dict.fromkeys((*names[:1], *names[-1:])))


def _gradient(
    trainer: Trainer, values: Values, start: Mapping[str, np.ndarray], name: str
) -> np.ndarray:
    """Of one parameter, from a step as large as itself."""

    def moved(rate: float) -> np.ndarray:
        trainer.set_parameters(start)
        trainer.step(values.inputs, values.label, lr=rate)
        return (start[name].astype(np.float64) - trainer.parameters()[name]) / rate

    rough = moved(1.0)
    rate = float(np.linalg.norm(start[name])) / max(float(np.linalg.norm(rough)), _TINY)
    return moved(rate) if 0 < rate < 1 / _TINY else rough


def _off(
    move: Callable[[np.ndarray], float],
    weight: np.ndarray,
    slope: np.ndarray,
    direction: np.ndarray,
) -> float:
    """The relative difference of the derivative in one direction."""
    length = np.linalg.norm(direction)
    if length == 0:
        return 0.0
    unit = direction / length
    told = float((slope * unit).sum())
    best = np.inf
    for step in _STEPS:
        by = step * max(float(np.linalg.norm(weight)), _LEAST) * unit
        measured = (move(by) - move(-by)) / (2 * float(np.linalg.norm(by)))
        best = min(best, abs(measured - told) / abs(told))
        if best < _GOOD:
            break
    return float(best)


def _loss(output: np.ndarray, values: Values) -> float:
    """The loss of an output, in float64."""
    exact = output.astype(np.float64)
    if not values.is_class:
        return float(((exact - values.label) ** 2).mean())
    is_probability = bool((exact >= 0).all()) and np.allclose(exact.sum(-1), 1, atol=1e-4)
    logs = np.log(exact) if is_probability else exact - _log_sum(exact)
    return float(-np.take_along_axis(logs, values.label[..., None].astype(int), -1).mean())


def _log_sum(exact: np.ndarray) -> np.ndarray:
    top = exact.max(-1, keepdims=True)
    return top + np.log(np.exp(exact - top).sum(-1, keepdims=True))
