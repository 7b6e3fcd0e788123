"""Verdict on a model: check and compile have to agree, and its steps to stay finite."""

import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from odtc.artifact import Artifact
from odtc.backends.targets import parse_target
from odtc.core.errors import DataError, NumericError, OdtcError
from odtc.core.specs import Argument, Role
from odtc.driver.entry_points import compile_model
from odtc.driver.examination import examine
from odtc.driver.options.step_options import StepOptions

# A message is read by a person.
LONGEST_MESSAGE = 4000
# The one dimension that check accepts without a size.
OPEN_BATCH = "the model's batch dimension"


@dataclass(frozen=True)
class Outcome:
    """The outcome of a mutant.

    Attributes:
        kind: `trained`, `diverged`, `refused`, `passed` where check lets it pass and no more was
            asked for, or `fault`.
        detail: the error's class and text.
    """

    kind: str
    detail: str = ""


def outcome_of(
    path: Path,
    options: Mapping[str, Any],
    *,
    steps: int = 1,
    trains: bool = True,
    wrong_with: Callable[[Artifact], str] = lambda _: "",
) -> Outcome:
    """Checks a model, and where check lets it pass compiles it and takes some steps.

    Args:
        path: of the model.
        options: of `odtc.compile`.
        steps: how many are taken.
        trains: whether there is more than the check.
        wrong_with: says what is wrong with an artifact.
    """
    try:
        said = checked(path, options)
        if not trains:
            return Outcome("refused", said[:LONGEST_MESSAGE]) if said else Outcome("passed")
        made = compiled(path, options, said)
        if isinstance(made, Outcome):
            return made
        wrong = wrong_with(made)
        ended = Outcome("fault", wrong) if wrong else take_steps(made, steps)
    except NumericError as error:
        ended = Outcome("diverged", str(error)[:LONGEST_MESSAGE])
    except DataError as error:
        ended = Outcome("refused", str(error)[:LONGEST_MESSAGE])
    except Exception as error:
        where = traceback.format_exc(limit=-8)[-LONGEST_MESSAGE:]
        ended = Outcome("fault", f"{type(error).__name__}: {str(error)[:300]}\n{where}")
    return ended


def agreement(path: Path, options: Mapping[str, Any]) -> Outcome:
    """Whether check and compile say the same of a model: `compiled`, `refused`, or `fault`."""
    try:
        made = compiled(path, options, checked(path, options))
    except Exception as error:
        return Outcome("fault", f"{type(error).__name__}: {str(error)[:300]}")
    return made if isinstance(made, Outcome) else Outcome("compiled")


def compiled(path: Path, options: Mapping[str, Any], said: str) -> Artifact | Outcome:
    """The artifact, or the outcome of a mutant that has none.

    Args:
        path: of the mutant.
        options: of `odtc.compile`.
        said: with which words check refuses it, which compile has to have, too.
    """
    try:
        artifact = compile_model(path, **options)
    except OdtcError as error:
        text = f"{type(error).__name__}: {str(error)[:LONGEST_MESSAGE]}"
        if not str(error).startswith((said or OPEN_BATCH, OPEN_BATCH)):
            return Outcome("fault", f"check says {said[:300] or 'nothing'}, and compile {text}")
        return Outcome("refused" if _is_readable(str(error)) else "fault", text)
    if said:
        return Outcome("fault", f"check refuses what compiles: {said[:LONGEST_MESSAGE]}")
    return artifact


def checked(path: Path, options: Mapping[str, Any]) -> str:
    """With which words `odtc check` refuses a model; empty where it does not."""
    try:
        report = examine(str(path), parse_target("host-cpu"), StepOptions(**options))
    except OdtcError as error:
        return str(error)
    blocking = sum(node.blocks for node in report.nodes)
    return f"{blocking} of {len(report.nodes)} nodes cannot be trained" if blocking else ""


def _is_readable(text: str) -> bool:
    """Whether a person can read it: a file's names may be very long, or steer the terminal."""
    lines = text.splitlines()
    return 0 < len(text) <= LONGEST_MESSAGE and all(line.isprintable() for line in lines)


def take_steps(artifact: Artifact, steps: int) -> Outcome:
    """Steps on random data that fits.

    Raises:
        NumericError: the step says itself that it left the finite numbers.
        DataError: it does not take the data.
    """
    trainer, (feeds, given) = artifact.trainer(threads=1), fed(artifact)
    loss = 0.0
    for _ in range(steps):
        loss = trainer.step(feeds, given, lr=0.01)
    found = {"the loss": np.array(loss), **trainer.parameters()}
    wild = [name for name, value in found.items() if not np.isfinite(value).all()]
    if wild:
        return Outcome("fault", f"not finite, and nothing said so: {', '.join(wild)}")
    return Outcome("trained", f"loss {loss:g}")


def fed(artifact: Artifact) -> tuple[dict[str, np.ndarray], Any]:
    """Random inputs and labels of a step."""
    rng, manifest = np.random.default_rng(0), artifact.manifest
    feeds = {spec.name: _random(rng, Argument(Role.INPUT, spec)) for spec in manifest.inputs}
    labels = {item.spec.name: _random(rng, item) for item in manifest.labels}
    return feeds, next(iter(labels.values())) if len(labels) == 1 else labels or None


def _random(rng: np.random.Generator, argument: Argument) -> np.ndarray:
    spec = argument.spec
    if np.issubdtype(np.dtype(spec.dtype), np.floating):
        return rng.standard_normal(spec.shape).astype(spec.dtype)
    most = argument.classes.count if argument.classes else 2
    return rng.integers(0, most, spec.shape).astype(spec.dtype)
