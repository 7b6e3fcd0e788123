"""One mutant in a worker process: what becomes of it."""

import shutil
import tempfile
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from odtc.artifact import Artifact
from odtc.autoschedule.tuning.database import user_database
from odtc.backends.kernel_store import kernel_store
from odtc.cli.check import examine
from odtc.compilation import compile_model
from odtc.core.errors import DataError, NumericError, OdtcError
from odtc.core.specs import TensorSpec
from tests.fuzz.corpus import CLASSES
from tests.fuzz.mutant import CANARY, CANARY_VALUE, make_mutant
from tests.fuzz.watch import foreign_opens

# A message is read by a person.
LONGEST_MESSAGE = 4000
# The one thing that check takes as it likes, where nobody says how large it is.
OPEN_BATCH = "the model's batch dimension"


@dataclass(frozen=True)
class Case:
    """A mutant by name, and the folder in which it is made."""

    mutation: str
    family: str
    seed: int
    folder: str

    def __str__(self) -> str:
        return f"{self.mutation}-{self.family}-{self.seed}"


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant.

    Attributes:
        kind: `trained`, `diverged`, `refused`, or `fault`.
        detail: the error's class and text.
    """

    kind: str
    detail: str = ""


def attempt(case: Case) -> Outcome:
    """Compiles the mutant and takes a step; everything that it leaves on disk is removed."""
    outside = Path(tempfile.mkdtemp(dir=case.folder))
    # Compilers share it from case to case, and it goes with all of them.
    scratch = Path(case.folder) / "scratch"
    scratch.mkdir(exist_ok=True)
    tempfile.tempdir = str(scratch)
    try:
        mutant = make_mutant(case.mutation, case.family, case.seed, outside)
        path = mutant.write()
        # Kernels may be written by the user's own records, and are kept.
        own = user_database(), kernel_store().folder
        allowed = (str(path.parent), str(scratch), *map(str, own))
        with foreign_opens(*allowed, canary=outside / CANARY) as foreign:
            outcome = _train(path, mutant.options)
        if foreign:
            return Outcome("fault", f"opened {', '.join(sorted(set(foreign)))}")
        return outcome
    finally:
        shutil.rmtree(outside, ignore_errors=True)


def _train(path: Path, options: Mapping[str, Any]) -> Outcome:
    try:
        said = _checked(path, options)
        made = _compiled(path, options, said)
        if isinstance(made, Outcome):
            return made
        if _holds_canary(made):
            return Outcome("fault", "a parameter holds the data of a file outside the folder")
        loss = _step(made)
    except NumericError:
        return Outcome("diverged")
    except DataError as error:
        return Outcome("refused", str(error)[:LONGEST_MESSAGE])
    except Exception as error:
        where = traceback.format_exc(limit=-8)
        return Outcome("fault", f"{type(error).__name__}: {str(error)[:300]}\n{where[-4000:]}")
    return Outcome("trained", f"loss {loss:g}")


def agreement(path: Path, options: Mapping[str, Any]) -> Outcome:
    """Whether check and compile say the same of a model: `compiled`, `refused`, or `fault`."""
    try:
        made = _compiled(path, options, _checked(path, options))
    except Exception as error:
        return Outcome("fault", f"{type(error).__name__}: {str(error)[:300]}")
    return made if isinstance(made, Outcome) else Outcome("compiled")


def _compiled(path: Path, options: Mapping[str, Any], said: str) -> Artifact | Outcome:
    """The artifact, or what became of a mutant that has none.

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


def _checked(path: Path, options: Mapping[str, Any]) -> str:
    """With which words `odtc check` refuses a model; empty where it does not."""
    try:
        report = examine(str(path), **options)
    except OdtcError as error:
        return str(error)
    blocking = sum(node.blocks for node in report.nodes)
    return f"{blocking} of {len(report.nodes)} nodes cannot be trained" if blocking else ""


def _is_readable(text: str) -> bool:
    """Whether a person can read it: a file's names may be very long, or steer the terminal."""
    lines = text.splitlines()
    return 0 < len(text) <= LONGEST_MESSAGE and all(line.isprintable() for line in lines)


def _step(artifact: Artifact) -> float:
    """A step on random data that fits."""
    rng = np.random.default_rng(0)
    manifest = artifact.manifest
    feeds = {spec.name: _random(rng, spec) for spec in manifest.inputs}
    # Every family ends in the scores of as many classes.
    labels = {item.spec.name: rng.integers(0, CLASSES, item.spec.shape) for item in manifest.labels}
    return artifact.trainer(threads=1).step(feeds, *labels.values(), lr=0.01)


def _random(rng: np.random.Generator, spec: TensorSpec) -> np.ndarray:
    if np.issubdtype(np.dtype(spec.dtype), np.floating):
        return rng.standard_normal(spec.shape).astype(spec.dtype)
    return rng.integers(0, 2, spec.shape).astype(spec.dtype)


def _holds_canary(artifact: Artifact) -> bool:
    trainer = artifact.trainer(threads=1)
    return any((value == CANARY_VALUE).any() for value in trainer.parameters().values())
