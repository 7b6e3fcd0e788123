"""The tables of a sweep: time and energy of a step, a column for each batch."""

from collections.abc import Callable, Sequence
from statistics import median
from typing import TYPE_CHECKING

from odtc.cli.console import aligned

if TYPE_CHECKING:
    from odtc.runtime_rpc.sweep.row import SweepResult

EMULATED = "EMULATED: the device is an emulator; its times and energy are not shown"
_IMPOSSIBLE = "-"


def tables(results: "Sequence[SweepResult]") -> list[str]:
    """Latency, then energy where there is some, then reasons and notes."""
    if not results:
        return ["nothing was measured"]
    rows = [row for result in results for row in result.rows]
    stamps = {
        EMULATED: any(row.emulated for row in rows),
        "FIXTURE: the samples are not of this device": any(row.fixture for row in rows),
    }
    lines = [stamp for stamp, holds in stamps.items() if holds]
    lines += ["ms of a step: median (least to most)", *_table(results, _latency), ""]
    known = [result for result in results if result.step_energy is not None]
    if known:
        lines += ["energy of a step, J: the whole device", *_table(results, _energy), ""]
    silent = sorted({row.energy_note for row in rows if row.energy_note})
    lines += [f"energy: {note}" for note in silent]
    return [*lines, *_reasons(results), *_notes(results)]


def _table(results: "Sequence[SweepResult]", cell: "Callable[[SweepResult], str]") -> list[str]:
    batches = sorted({result.configuration.batch for result in results})
    with_frequency = any(result.configuration.frequency for result in results)
    heads = ("model", "cores", "threads", *(("frequency",) if with_frequency else ()))
    found: dict[tuple[str, ...], dict[int, str]] = {}
    for result in results:
        it = result.configuration
        frequency = (it.frequency,) if with_frequency else ()
        key = (it.model, it.cores, str(it.threads or ""), *frequency)
        found.setdefault(key, {})[it.batch] = cell(result)
    columns = [f"batch {batch}" for batch in batches]
    body = [(*key, *(cells.get(each, "") for each in batches)) for key, cells in found.items()]
    return aligned([(*heads, *columns), *body])


def _latency(result: "SweepResult") -> str:
    if not result.is_real:
        return "emulated"
    times = [1e3 * each for each in result.seconds]
    return f"{median(times):.2f} ({times[0]:.2f} to {times[-1]:.2f})" if times else _IMPOSSIBLE


def _energy(result: "SweepResult") -> str:
    if not result.is_real:
        return "emulated"
    return _IMPOSSIBLE if result.step_energy is None else f"{result.step_energy:.3g}"


def _reasons(results: "Sequence[SweepResult]") -> list[str]:
    from odtc.runtime_rpc.sweep.sweep import described

    return [f"{described(it.configuration)}: {it.reason}" for it in results if it.reason]


def _notes(results: "Sequence[SweepResult]") -> list[str]:
    from odtc.runtime_rpc.sweep.sweep import described

    return [
        f"{described(row.configuration)}, round {row.round + 1}: {note}"
        for result in results
        for row in result.rows
        for note in row.notes
    ]
