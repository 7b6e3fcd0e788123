"""The table of all parts of pages: a name, the file of its figures, and what writes its lines."""

import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence

from benchmarks.pages import suites
from benchmarks.pages.measured import measured
from benchmarks.pages.result import Result, Row, read_result
from benchmarks.pages.rows import (
    arm,
    budgets,
    gpu,
    language_models,
    memory,
    other,
    performance,
    recomputation,
)

Lines = Callable[[], Sequence[str]]
# What a row is called, by the first of these that it has.
_NAMES = ("model", "network", "pages", "by", "what")


def _label(row: Row) -> str:
    said = next((str(row[key]) for key in _NAMES if key in row), "")
    more = [str(row[key]) for key in ("through", "budget") if key in row]
    return ", ".join([said, *more])


def _of(name: str, write: Callable[[Result], Sequence[str]]) -> Lines:
    """A table with the line of its runs."""

    def lines() -> Sequence[str]:
        result = read_result(name)
        rows = write(result)
        return [*rows, *([""] if rows else []), measured(result, _label)]

    return lines


def _nothing(_: Result) -> Sequence[str]:
    return ()


def _from(name: str, write: Callable[[Result], Sequence[str]]) -> Lines:
    """Sentences with figures of a table that stands elsewhere."""
    return lambda: write(read_result(name))


TABLES: Mapping[str, Callable[[Result], Sequence[str]]] = {
    "performance/demo": other.demo,
    "arm/networks": arm.networks,
    "arm/changes": arm.changes,
    "arm/codes": arm.codes,
    "performance/step_time": performance.step_time,
    "performance/zen4": performance.step_time,
    "performance/cores": performance.cores,
    "performance/gpu_steps": gpu.steps,
    "performance/gpu_mixed": gpu.steps,
    "performance/gpu_tuning": gpu.tuning,
    "performance/gpu_families": gpu.families,
    "performance/layouts": other.words,
    "performance/compile_time": performance.compile_time,
    "performance/plan_time": performance.plan_time,
    "performance/plan_loops": performance.plan_loops,
    "performance/tuning": performance.tuning,
    "memory/networks": memory.networks,
    "memory/speed": memory.speed,
    "budgets/batch_8": budgets.batch_8,
    "budgets/least": budgets.least,
    "budgets/batch_64": budgets.batch_64,
    "budgets/two_gib": budgets.two_gib,
    "budgets/recomputation": recomputation.plans,
    "budgets/measured_times": budgets.measured_times,
    "budgets/switching": budgets.switching,
    "budgets/clearing": budgets.clearing,
    "budgets/huge_pages": budgets.huge_pages,
    "native_runtime/steps": other.native_runtime,
    "native_runtime/same_bits": other.same_bits,
    "language_models/learning": other.learning,
    "language_models/steps": language_models.on_cpus,
    "language_models/zen4": language_models.on_cpus,
    "language_models/gpu": language_models.on_gpus,
    "howto/app_size": other.app_size,
    "howto/check_cost": other.check_cost,
    "howto/features": other.features,
    "howto/training_data": other.training_data,
    "metrics/sampling": other.sampling,
    "reliability/kills": other.words,
    "reliability/attack": other.words,
}
# Pages whose outcomes `tests.published` and `tests.ways_in` write: only their age is a part.
_AGES = ("published", "ways_in")
# Other parts have no figures of their own.
PARTS: Mapping[str, Lines] = {
    **{name: _of(name, write) for name, write in TABLES.items()},
    **{name: _of(name, _nothing) for name in _AGES},
    "readme/one_thread": suites.one_thread,
    "readme/zen4": lambda: suites.one_thread("readme_zen4"),
    "budgets/in_short": _from("budgets/batch_8", budgets.in_short),
    "budgets/in_short_64": _from("budgets/batch_64", budgets.in_short_64),
    "language_models/in_short": _from("language_models/steps", language_models.in_short),
    "language_models/zen4_in_short": _from("language_models/zen4", language_models.in_short),
    "comparison/suites": suites.files,
}
_WRAPPER = textwrap.TextWrapper(110, break_on_hyphens=False, break_long_words=False)
FILES = (*TABLES, *_AGES, suites.SUITES)
# What no kernel has a part in.
WITHOUT_KERNELS = {
    "budgets/clearing",
    "howto/check_cost",
    "reliability/attack",
    "reliability/kills",
}


def text_of(name: str) -> str:
    """The lines of a part, between empty ones: an indented block or a table needs these.

    Raises:
        KeyError: there is no such part.
    """
    return "\n".join(["", *_wrapped(PARTS[name]()), ""])


def _wrapped(lines: Sequence[str]) -> Iterator[str]:
    """Sentences in lines of a page's width; rows and indented blocks as they are."""
    for line in lines:
        is_text = line and not line.startswith(("|", " "))
        yield from _WRAPPER.wrap(line) if is_text else [line]
