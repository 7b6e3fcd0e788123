"""A mutant: a small model of a kind after some edits."""

import math
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from random import Random

import onnx.checker
from onnx import ModelProto

from odtc.frontend.file.bodies import require_counts
from tests.fuzz.graphs import insert_edits, node_edits, value_edits, wrap_edits
from tests.fuzz.graphs.editor import Editor, NoPlaceError
from tests.fuzz.graphs.kinds import KINDS, OUTSIDE

EDITS = tuple(
    edit for family in (node_edits, value_edits, insert_edits, wrap_edits) for edit in family.EDITS
)
# Four of five are drawn until ONNX's checker takes them, and the fifth until it does not; so often
# at most.
_DRAWS = 12
_MODEL = "model.onnx"


@dataclass(frozen=True)
class Case:
    """A mutant by name.

    Attributes:
        kind: of the model.
        number: of the mutant among those of its kind.
        seed: of the run.
        trains_until: the time, as of `time.time`, after which it is checked alone.
    """

    kind: str
    number: int
    seed: int = 0
    trains_until: float = math.inf

    def __str__(self) -> str:
        return f"{self.kind}-{self.seed}-{self.number}"


@dataclass(frozen=True)
class Mutant:
    """The edited model.

    Attributes:
        model: the model.
        edits: names of what was done to it.
        is_valid: whether `onnx.checker` takes it, with types and shapes.
    """

    model: ModelProto
    edits: tuple[str, ...]
    is_valid: bool

    @property
    def digest(self) -> str:
        """Of the model's bytes."""
        return sha256(self.model.SerializeToString()).hexdigest()


def make_mutant(case: Case) -> Mutant:
    """The mutant of that name; the same each time."""
    draws = (
        _draw(case, Random(f"{case.kind}/{case.seed}/{case.number}/{draw}"))
        for draw in range(_DRAWS)
    )
    wants_valid = case.number % 5 < 4
    mutant = next(draws)
    while mutant.is_valid != wants_valid:
        later = next(draws, None)
        if later is None:
            break
        mutant = later
    return mutant


def write(case: Case, mutant: Mutant, folder: Path) -> Path:
    """Writes the model, and its weights beside it where the kind has them there."""
    path = folder / _MODEL
    if case.kind in OUTSIDE:
        onnx.save_model(
            mutant.model, path, save_as_external_data=True, location="weights", size_threshold=0
        )
    else:
        path.write_bytes(mutant.model.SerializeToString())
    return path


def _draw(case: Case, rng: Random) -> Mutant:
    editor = Editor(KINDS[case.kind].make())
    before = editor.model.SerializeToString()
    done: list[str] = []
    wanted = rng.choice([1, 1, 2, 2, 3, 5])
    while len(done) < wanted or editor.model.SerializeToString() == before:
        edit = rng.choice(EDITS)
        editor.look()
        try:
            edit(rng, editor)
        except (NoPlaceError, ValueError, IndexError):
            # The last two: what edits before it left does not fit together.
            continue
        done.append(edit.__name__)
    return Mutant(editor.model, tuple(done), _is_valid(editor.model))


def _is_valid(model: ModelProto) -> bool:
    try:
        # What odtc refuses so may end the process in ONNX's inference.
        require_counts(model)
        onnx.checker.check_model(model.SerializeToString(), full_check=True)
    except Exception:
        # The checker reports some faults of a model by errors of other classes.
        return False
    return True
