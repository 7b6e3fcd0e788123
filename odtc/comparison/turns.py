"""One case: every engine prepares, agrees on the losses, and takes its turn.

    data ─→ odtc prepares, chooses the rate ─→ each peer prepares ─→ all load and take three steps
         ─→ losses compared ─→ A B C A B C … ─→ a row each

An engine that fails in any way has a row that says so, and the others go on. Where odtc itself
cannot train, there is nothing to agree with: the peers' rows are kept, without a ratio.
"""

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from odtc.comparison.case import Case
from odtc.comparison.engines import OURS
from odtc.comparison.measures.measure import busy_share
from odtc.comparison.measures.parity import disagreement
from odtc.comparison.outcome import Outcome
from odtc.comparison.process import Worker, WorkerError, done
from odtc.comparison.row import ComparisonRow, Setting
from odtc.comparison.worker import TURN
from odtc.core.process.progress import Progress

# The learning rate where neither the user nor odtc's own losses give one.
_USUAL_RATE = 1e-4


@dataclass(frozen=True)
class Entrant:
    """An entrant of a comparison.

    Attributes:
        engine: one of `ENGINES`.
        budget: of odtc's step; '' for none.
    """

    engine: str
    budget: str = ""

    @property
    def name(self) -> str:
        """Its name in rows."""
        return f"{self.engine}, {self.budget}" if self.budget else self.engine


@dataclass
class PreparedCase:
    """A case whose engines are ready to be loaded, in a folder of its own.

    Attributes:
        case: with its learning rate.
        folder: of the case.
        known: facts about each engine by its name: seconds, planned bytes.
        failures: of those that cannot be loaded.
        work: of a step, by fields of a row; with the machine's peaks if measured.
    """

    case: Case
    folder: Path
    known: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    failures: dict[str, WorkerError] = field(default_factory=dict)
    work: dict[str, Any] = field(default_factory=dict)

    def at(self, entry: Entrant) -> Path:
        """Folder of an engine."""
        return self.folder / entry.name.replace(", ", "-")

    def of(self, entry: Entrant) -> Case:
        """The case for an engine."""
        return replace(self.case, budget=entry.budget)


def prepared(
    case: Case, entries: Sequence[Entrant], folder: Path, limit: float, tell: Progress
) -> PreparedCase:
    """Prepares all engines.

    Args:
        case: to train.
        entries: odtc first.
        folder: a new one, for the case.
        limit: seconds for each.
        tell: called with a description of the current activity.
    """
    found = PreparedCase(case, folder)
    first = entries[0]
    try:
        tell("draw the batch")
        found.work = dict(done("data", case, found.at(first), OURS, limit))
    except WorkerError as error:
        found.failures = dict.fromkeys((entry.name for entry in entries), error)
        return found
    for entry in entries:
        tell(f"{entry.name}: prepare")
        _prepare(found, entry, limit)
        if entry == first and not found.case.lr:
            found.case = replace(found.case, lr=_rate(found, first, limit, tell))
    return found


def _prepare(found: PreparedCase, entry: Entrant, limit: float) -> None:
    case, folder = found.of(entry), found.at(entry)
    try:
        found.known[entry.name] = done("prepare", case, folder, entry.engine, limit)
    except WorkerError as error:
        found.failures[entry.name] = error


def _rate(found: PreparedCase, first: Entrant, limit: float, tell: Progress) -> float:
    if first.name in found.failures:
        return _USUAL_RATE
    tell("choose the learning rate")
    try:
        return float(done("rate", found.case, found.at(first), OURS, limit)["lr"])
    except WorkerError:
        return _USUAL_RATE


def ceilings(ready: PreparedCase, limit: float, tell: Progress) -> Mapping[str, float]:
    """Measures the machine's peaks with the threads of a case, by fields of a row."""
    tell("measure what the machine can do")
    try:
        return done("ceilings", ready.case, ready.folder / "ceilings", OURS, limit)
    except WorkerError:
        return {}


class Round:
    """One round of a case: all engines loaded anew, and timed in turns.

    Args:
        ready: the case.
        setting: as rows have it.
        number: of the round.
        limit: seconds for each answer of an engine.
        tell: called with a description of the current activity.
    """

    def __init__(
        self, ready: PreparedCase, setting: Setting, number: int, limit: float, tell: Progress
    ) -> None:
        self._ready, self._setting, self._number = ready, setting, number
        self._limit, self._tell = limit, tell
        self._workers: dict[str, Worker] = {}
        self._rows: dict[str, ComparisonRow] = {}

    def rows(self, entries: Sequence[Entrant], steps: int) -> list[ComparisonRow]:
        """Measures, and returns a row for each entrant.

        Args:
            entries: odtc first.
            steps: timed ones of each.
        """
        began = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        before = busy_share()
        try:
            for entry in entries:
                self._load(entry, began)
            self._compare(entries[0].name)
            self._tell(f"{self._setting.text()}: {steps} turns of {', '.join(self._workers)}")
            for _ in range(steps):
                for name in list(self._workers):
                    self._ask(name, TURN, ("seconds", "cpu_seconds"))
        finally:
            for worker in self._workers.values():
                worker.close()
        busy = (before, busy_share())
        return [replace(self._rows[entry.name], busy=busy) for entry in entries]

    def _load(self, entry: Entrant, began: str) -> None:
        """Starts an engine; it takes its first steps."""
        name, ready = entry.name, self._ready
        self._rows[name] = ComparisonRow(
            self._setting,
            self._number,
            name,
            Outcome.TRAINED,
            lr=ready.case.lr,
            **ready.work,
            began=began,
            **ready.known.get(name, {}),
        )
        if name in ready.failures:
            self._fail(name, ready.failures[name])
            return
        self._tell(f"{self._setting.text()}: load {name}")
        self._workers[name] = Worker(
            "serve", ready.of(entry), ready.at(entry), entry.engine, self._limit
        )
        self._ask(name, "", ("losses",))

    def _compare(self, ours: str) -> None:
        """Ends those whose losses are not odtc's."""
        expected = self._rows[ours].losses
        for name in list(self._workers) if expected else []:
            differing = disagreement(self._rows[name].losses, expected)
            if differing:
                self._fail(name, WorkerError(Outcome.MISMATCH, differing))

    def _ask(self, name: str, command: str, samples: tuple[str, ...]) -> None:
        """Puts an answer into the row: samples after those before, others in their place."""
        row = self._rows[name]
        try:
            answer = dict(self._workers[name].ask(command))
        except WorkerError as error:
            self._fail(name, error)
            return
        for key in samples:
            new = answer[key]
            answer[key] = (*getattr(row, key), *(new if isinstance(new, list) else [new]))
        self._rows[name] = replace(row, **answer)

    def _fail(self, name: str, error: WorkerError) -> None:
        self._rows[name] = replace(self._rows[name], outcome=error.outcome, reason=error.reason)
        worker = self._workers.pop(name, None)
        if worker:
            worker.kill()
