"""The last line of a table: when, on what and by what it was measured, and what changed since."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from benchmarks.pages.result import Result, Row
from benchmarks.pages.text import listed
from odtc.comparison.measures.measure import cpu_text
from odtc.comparison.results import BUSY

# Of another run only that is said which differs from the first.
_HOW = ("command", "machine", "threads", "versions", "conditions", "busy")
# A file has the versions of all packages; these decide what a step and its peers take.
_PACKAGES = ("odtc", "apache-tvm", "torch", "onnxruntime-training")
_OLD = "kernels have changed since"


def measured(result: Result, label: Callable[[Row], str]) -> str:
    """One line; it names the rows of each run but the first.

    Args:
        result: the figures.
        label: the name of a row.
    """
    first, *others = result.runs
    said = f"Measured{how_text(first)}; {when_text(first)}."
    if others:
        runs = (_other(result, number, label) for number in range(1, len(result.runs)))
        said += f" Of other runs: {'; '.join(runs)}."
    return said


def _other(result: Result, number: int, label: Callable[[Row], str]) -> str:
    first, run = result.runs[0], result.runs[number]
    rows = listed(list(dict.fromkeys(label(row) for row in result.rows_of(number))))
    own = {key: run[key] for key in _HOW if key in run and run[key] != first.get(key)}
    return f"{rows}{how_text(own)} ({when_text(run)})"


def rows_text(name: str, result: Result) -> str:
    """The line of a section that shows a part of a file's rows: the file, and how old it is."""
    ages = "; ".join(dict.fromkeys(map(when_text, result.runs)))
    return f"Rows: [{name.rpartition('/')[2]}.json](results/{name}.json); {ages}."


def how_text(run: Mapping[str, Any]) -> str:
    """` by ... on ..., ...`; empty where nothing is known."""
    return " ".join(_source(run)) + "".join(f", {each}" for each in _terms(run))


def _source(run: Mapping[str, Any]) -> Iterator[str]:
    if run.get("command"):
        yield f" by `{run['command']}`"
    if "machine" in run:
        yield f"{'' if run.get('command') else ' '}on {machine_text(run['machine'])}"


def _terms(run: Mapping[str, Any]) -> Iterator[str]:
    if run.get("threads"):
        yield f"{run['threads']} thread{'s' * (run['threads'] != 1)}"
    versions = run.get("versions", {})
    yield from (f"{name} {versions[name]}" for name in _PACKAGES if name in versions)
    if run.get("conditions"):
        yield run["conditions"]
    yield from busy_text(run)


def busy_text(run: Mapping[str, Any]) -> Iterator[str]:
    """What other programs did, where that was too much."""
    if run.get("busy", 0) > BUSY:
        yield f"other programs kept {run['busy']:.0%} of the cores busy"


def machine_text(machine: Mapping[str, Any]) -> str:
    """`AMD EPYC (znver5) with AVX-512, 2 cores`."""
    said = cpu_text(machine)
    if machine.get("instructions"):
        said += f" with {machine['instructions']}"
    cores = machine.get("cores")
    return said + (f", {cores} core{'s' * (cores != 1)}" if cores else "")


def when_text(run: Mapping[str, Any]) -> str:
    """`2026-11-26, commit 0fe7ada; kernels have changed since`.

    Of figures that were typed only that is known since when they stand on the page. Behind it are
    the rows whose age is apart.
    """
    said = f"{run['date']}, commit {run['commit']}"
    if run.get("typed"):
        said = f"on this page since {said}"
    if run.get("kernels_changed"):
        said += f"; {_OLD}"
    apart = (f"{each['rows']}: {when_text(each)} ({each['why']})" for each in run.get("apart", ()))
    return "; ".join([said, *apart])
