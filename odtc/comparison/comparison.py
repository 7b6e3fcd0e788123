"""Runs all cases of a comparison, in rounds; the file of rows lets it resume after an interrupt."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from odtc.comparison.case import Case
from odtc.comparison.engines import OURS
from odtc.comparison.row import ComparisonRow, Setting
from odtc.comparison.turns import Entrant, PreparedCase, Round, ceilings, prepared
from odtc.core.disk.left_behind import temporary_folder
from odtc.core.disk.row_file import RowFile
from odtc.core.process.progress import Progress


@dataclass(frozen=True)
class Terms:
    """The terms of a comparison.

    Attributes:
        batches: of the model.
        threads: numbers of worker threads.
        entries: odtc first.
        steps: timed ones of each engine, in a round.
        rounds: how often all is loaded and measured anew.
        limit: seconds that an engine may take to prepare, to load, and for a turn.
        roofline: whether the machine's peaks are measured, too.
        measured: peaks that are known already, by threads.
    """

    batches: Sequence[int]
    threads: Sequence[int]
    entries: Sequence[Entrant]
    steps: int
    rounds: int
    limit: float
    roofline: bool = False
    measured: dict[int, Mapping[str, float]] = field(default_factory=dict)


def entries_of(peers: Sequence[str], budgets: Sequence[str]) -> list[Entrant]:
    """Returns the entrants of a comparison: odtc, odtc with each budget, and its peers."""
    ours = [Entrant(OURS), *(Entrant(OURS, budget) for budget in dict.fromkeys(budgets))]
    return [*ours, *(Entrant(peer) for peer in dict.fromkeys(peers) if peer != OURS)]


def compare(
    case: Case, name: str, terms: Terms, file: RowFile[ComparisonRow], tell: Progress
) -> None:
    """Measures the turns that have no row in the file yet.

    Args:
        case: its batch and threads are those of `terms`.
        name: of the model, for rows.
        terms: of the comparison.
        file: for its rows.
        tell: called with a description of the current activity.

    Raises:
        OutputError: a row cannot be written.
    """
    with temporary_folder() as folder:
        ready: dict[Setting, PreparedCase] = {}
        for number, setting in missing(name, terms, file.rows):
            if setting not in ready:
                own = Path(folder, f"{setting.batch}-{setting.threads}")
                its = replace(case, batch=setting.batch, threads=setting.threads)
                say = _about(setting, tell)
                ready[setting] = prepared(its, terms.entries, own, terms.limit, say)
                if terms.roofline:
                    if setting.threads not in terms.measured:
                        known = ceilings(ready[setting], terms.limit, say)
                        terms.measured[setting.threads] = known
                    ready[setting].work |= terms.measured[setting.threads]
            turns = Round(ready[setting], setting, number, terms.limit, tell)
            file.add(*turns.rows(terms.entries, terms.steps))


def missing(
    name: str, terms: Terms, rows: Sequence[ComparisonRow]
) -> Iterator[tuple[int, Setting]]:
    """The rounds of settings that have no rows yet, in the order in which they are measured."""
    there = {(row.round, row.setting) for row in rows}
    for number in range(terms.rounds):
        for batch in terms.batches:
            for threads in terms.threads:
                turn = (number, Setting(name, batch, threads))
                if turn not in there:
                    yield turn


def _about(setting: Setting, tell: Progress) -> Progress:
    return lambda stage: tell(f"{setting.text()}: {stage}")
