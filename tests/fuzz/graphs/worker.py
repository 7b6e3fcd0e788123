"""The outcome of one mutant, in a worker process."""

import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz.graphs.kinds import KINDS
from tests.fuzz.graphs.mutant import Case, make_mutant, write
from tests.fuzz.verdict import Outcome, outcome_of

STEPS = 3


@dataclass(frozen=True)
class Result:
    """The result of a mutant.

    Attributes:
        outcome: how it ended.
        is_valid: whether `onnx.checker` takes it.
        edits: what was done to it.
        digest: of its bytes before its weights are moved to another file.
    """

    outcome: Outcome
    is_valid: bool
    edits: tuple[str, ...]
    digest: str


def attempt(case: Case) -> Result:
    """Checks the mutant, and where check lets it pass compiles it and takes some steps."""
    mutant = make_mutant(case)
    # No other process uses it; and what a compiler leaves in it goes, too.
    folder = Path(tempfile.mkdtemp(prefix="mutant-"))
    try:
        path = write(case, mutant, folder)
        trains = time.time() < case.trains_until
        outcome = outcome_of(path, KINDS[case.kind].options, steps=STEPS, trains=trains)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return Result(outcome, mutant.is_valid, mutant.edits, mutant.digest)
