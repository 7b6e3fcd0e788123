"""Outcomes of an engine's work; a failure is a result, too."""

import re
from enum import StrEnum


class Outcome(StrEnum):
    """The outcome of an engine's work."""

    TRAINED = "trained"
    MISMATCH = "other losses"
    MEMORY = "out of memory"
    BUDGET = "budget not met"
    UNSUPPORTED = "unsupported"
    MISSING = "not installed"
    CRASHED = "crashed"
    HUNG = "no answer"
    FAILED = "failed"


# Patterns of engines' errors, `class of the exception: text` or the last line before they die; the
# first match counts.
_MARKS = (
    (
        Outcome.MEMORY,
        r"MemoryError|bad_alloc|[Oo]ut of memory|[Nn]ot enough memory|no memory for a buffer"
        r"|(can't|[Cc]annot|[Ff]ailed to) allocate|buffer allocation failed|failed to map segment",
    ),
    (Outcome.MISSING, r"^(ModuleNotFoundError|ImportError|MissingPackageError)\b"),
    (Outcome.BUDGET, r"^BudgetError\b"),
    (
        Outcome.UNSUPPORTED,
        r"^(UnsupportedError|NotImplementedError)\b|[Nn]ot (supported|implemented)|only supports"
        r"|NOT_IMPLEMENTED"
        r"|[Nn]o gradient|[Gg]radient (function|builder|definition).*(not|missing)"
        r"|TVM cannot train it",
    ),
)


def outcome_of(text: str) -> Outcome:
    """Classifies an engine's last line of output; `FAILED` where no pattern matches."""
    return next((kind for kind, mark in _MARKS if re.search(mark, text)), Outcome.FAILED)
