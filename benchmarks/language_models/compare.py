"""A model at a length: files, parity, and then turns."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.language_models.prepare import COMPILED, FED
from benchmarks.language_models.sides import (
    CHECKPOINTED,
    TORCH,
    Side,
    SideError,
    Turn,
    run_task,
)
from benchmarks.native_runtime.__main__ import program_of_steps
from odtc.comparison.measures.parity import PARITY_STEPS, disagreement

PEERS = {TORCH: (), CHECKPOINTED: ("checkpointing",)}
# Before the steps that are timed.
_WARM_UP = 1


@dataclass(frozen=True)
class Terms:
    """How each model is measured.

    Attributes:
        bases: of odtc, by name.
        threads: worker threads of each side.
        turns: processes of each side.
        steps: that are timed in a turn.
    """

    bases: Sequence[str]
    threads: int
    turns: int
    steps: int


@dataclass
class Row:
    """One side with a model at a length.

    Attributes:
        model: its name.
        tokens: in a step.
        side: a base of odtc, or a peer.
        turns: in which it took steps; the first step of each only warms up.
        parity: of a base: steps from PEFT's folder, by a trainer in Python.
        compiled: of a base: fields of `prepare.Compiled`.
        skipped: why there are no turns.
    """

    model: str
    tokens: int
    side: str
    turns: list[Turn] = field(default_factory=list)
    parity: Turn | None = None
    compiled: dict[str, Any] | None = None
    skipped: str = ""

    @property
    def seconds(self) -> list[float]:
        """Of the steps that count."""
        return [each for turn in self.turns for each in turn.seconds[_WARM_UP:]]

    @property
    def peak(self) -> float:
        """The most bytes of a process, in the median turn."""
        return median(turn.peak for turn in self.turns)

    @property
    def files(self) -> float:
        """Bytes of mapped files, in the median turn."""
        return median(turn.files for turn in self.turns)

    @property
    def net(self) -> float:
        """The most bytes without imports; of odtc those of its trainer in Python."""
        return self.parity.net if self.parity else median(turn.net for turn in self.turns)


def compare(
    model: str, tokens: int, terms: Terms, folder: Path, tell: Callable[[str], None]
) -> list[Row]:
    """Measures a model at a length; a side that cannot says why in its row.

    Raises:
        SideError: the model cannot be exported.
    """
    tell("export")
    run_task(terms.threads, "export", str(folder), model, str(tokens))
    words = str(folder), str(terms.threads)
    rows: dict[str, Row] = {}
    sides: dict[str, Side] = {}
    for name, more in PEERS.items():
        rows[name] = Row(model, tokens, name)
        sides[name] = Side.worker(name, "torch", *words, *more)
    tell(f"{TORCH}, losses")
    expected = sides[TORCH].take(PARITY_STEPS, terms.threads).losses
    for base in terms.bases:
        row = rows[base] = Row(model, tokens, base)
        try:
            tell(f"compile over {base}")
            run_task(terms.threads, "compile", str(folder), base)
            row.compiled = json.loads((folder / base / COMPILED).read_text())
            tell(f"odtc over {base}, losses")
            trainer = Side.worker(base, "odtc", *words, base)
            row.parity = trainer.take(PARITY_STEPS, terms.threads)
            row.skipped = disagreement(row.parity.losses, expected)
        except SideError as error:
            row.skipped = str(error)
        if not row.skipped:
            command = program_of_steps(folder / base, folder / base)
            command += [str(terms.threads), str(folder / base / FED)]
            sides[base] = Side(base, command, imports=False)
    for turn in range(terms.turns):
        tell(f"turn {turn + 1} of {terms.turns}")
        for name, side in sides.items():
            if not rows[name].skipped:
                _take(rows[name], side, terms)
    return list(rows.values())


def _take(row: Row, side: Side, terms: Terms) -> None:
    try:
        row.turns.append(side.take(_WARM_UP + terms.steps, terms.threads))
    except SideError as error:
        row.turns.clear()
        row.skipped = str(error)
