"""The outcome of one mutant, in a worker process."""

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from odtc.artifact import Artifact
from odtc.autoschedule.tuning.database import user_database
from odtc.backends.objects.kernel_store import kernel_store, outline_store
from tests.fuzz.mutant import CANARY, CANARY_VALUE, make_mutant
from tests.fuzz.verdict import Outcome, outcome_of
from tests.fuzz.watch import foreign_opens


@dataclass(frozen=True)
class Case:
    """A mutant by name, and the folder in which it is made."""

    mutation: str
    family: str
    seed: int
    folder: str

    def __str__(self) -> str:
        return f"{self.mutation}-{self.family}-{self.seed}"


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
        # Kernels may be written by the user's own records, and are kept with their outlines.
        own = user_database(), kernel_store().folder, outline_store().folder
        allowed = (str(path.parent), str(scratch), *map(str, own))
        with foreign_opens(*allowed, canary=outside / CANARY) as foreign:
            outcome = outcome_of(path, mutant.options, wrong_with=_wrong_with)
        if foreign:
            return Outcome("fault", f"opened {', '.join(sorted(set(foreign)))}")
        return outcome
    finally:
        shutil.rmtree(outside, ignore_errors=True)


def _wrong_with(artifact: Artifact) -> str:
    parameters = artifact.trainer(threads=1).parameters().values()
    holds_canary = any((value == CANARY_VALUE).any() for value in parameters)
    return "a parameter holds the data of a file outside the folder" if holds_canary else ""
