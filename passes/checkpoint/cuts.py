"""Micro-batches, recomputation and how kernels are made, in one decision.

A step may run as several micro-batches, each of which may compute some of its results again; what
the backward pass reads of the forward pass may wait as float16; and convolutions may do without the
workspaces of a faster form. Of all these ways the fastest one is taken that fits. More micro-
batches are assumed never to be faster: each of them reads all weights, makes all calls, and adds to
all gradients. Where the model of the target says otherwise, as it does not know all that a kernel
does, the time of fewer is used. So once a way takes no longer than the least time for its number of
micro-batches, no larger number has to be tried. Other kernels are not assumed to be faster than the
usual ones either: they are only for what does not fit otherwise.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Generic, TypeVar

from odtc.passes.checkpoint.arena import arena_of
from odtc.passes.checkpoint.frontier import frontier, lowest_of
from odtc.passes.checkpoint.plans.spaced import spaced
from odtc.passes.checkpoint.problem import Plan, Recomputation, highest_of, plan_of
from odtc.passes.checkpoint.stage_program import StageProgram

T = TypeVar("T")
# Least part of its proportional bytes that a step of more micro-batches has.
_ALIKE = 0.9


@dataclass(frozen=True, order=True)
class KernelForm:
    """A form of a step's kernels; of two that take the same time, the lesser one is taken.

    Attributes:
        half: whether saved activations wait as float16.
        direct: whether convolutions multiply every tap, which is slower and needs no workspace.
    """

    half: bool = False
    direct: bool = False

    def is_below(self, other: "KernelForm") -> bool:
        """Whether the other one is this, or has something beyond it."""
        return self.half <= other.half and self.direct <= other.direct


# The form without a budget.
USUAL = KernelForm()
# All of them, each after those that are below it.
FORMS = tuple(KernelForm(half, direct) for half, direct in product((False, True), repeat=2))


@dataclass(frozen=True, eq=False)
class Cut(Generic[T]):
    """A step as so many micro-batches.

    Attributes:
        count: of micro-batches; 1 for the step as it is.
        problem: the recomputation problem of one of them.
        beside: bytes that the step needs beside its arena only because of them.
        made: the caller's own data of the step.
        form: of its kernels.
    """

    count: int
    problem: Recomputation
    beside: int
    made: T
    form: KernelForm = USUAL

    @property
    def seconds(self) -> float:
        """Seconds of a step in which no task runs again."""
        return self.count * sum(self.problem.seconds)

    @cached_property
    def plans(self) -> tuple[Plan, ...]:
        """The plans of the frontier; see `frontier`."""
        return frontier(self.problem)

    @cached_property
    def _stage(self) -> StageProgram:
        return StageProgram(self.problem, highest_of(self.problem, _as_it_is(self.problem)))

    def least_within(self, budget: float, share: float = 1.0) -> float:
        """Seconds of a step within a budget, at least: plans take longer to find than that.

        Args:
            budget: bytes of the arena, and of what is beside it.
            share: of their bytes that the tensors of the step would have.

        Returns:
            Infinity where no plan can be within it.
        """
        room = (budget - self.beside) / share
        choice = self._stage.cheapest(room) if self.problem.largest <= room else None
        return self.seconds + self.count * choice.seconds if choice else math.inf

    @property
    def floor(self) -> int:
        """The fewest bytes that the step needs."""
        return arena_of(self.problem, lowest_of(self.plans)) + self.beside


@dataclass(frozen=True)
class Way(Generic[T]):
    """A way to run a step.

    Attributes:
        cut: into micro-batches.
        plan: of each of them.
        seconds: of the whole step.
        arena_bytes: of the arena.
    """

    cut: Cut[T]
    plan: Plan
    seconds: float
    arena_bytes: int

    @property
    def nbytes(self) -> int:
        """Bytes of the arena, and of what is beside it."""
        return self.arena_bytes + self.cut.beside


def fastest(cuts: Iterable[Cut[T]], budget: int) -> Way[T] | None:
    """The fastest way that fits a budget, of those the usual one, with the fewest micro-batches.

    Args:
        cuts: of rising numbers of micro-batches, of each in the order of `FORMS`; no more are asked
            for than needed.
        budget: bytes of the arena, and of what is beside it.
    """
    best: Way[T] | None = None
    for cut, least, others in _timed(cuts):
        for plan, seconds in _plans_within(cut, least, budget, best):
            if best is not None and (seconds, cut.form) >= (best.seconds, best.cut.form):
                break
            way = Way(cut, plan, seconds, plan.peak)
            if way.nbytes <= budget and (way := _packed(way)).nbytes <= budget:
                best = way
                break
        if best is not None and (best.seconds, best.cut.form) <= (others, USUAL):
            break
    return best


def _plans_within(
    cut: Cut[T], least: float, budget: int, best: Way[T] | None
) -> Iterator[tuple[Plan, float]]:
    """The plans of a cut, but for none where no step within the budget is better than the best."""
    bound = max(least, cut.least_within(budget))
    if best is None or (bound, cut.form) < (best.seconds, best.cut.form):
        yield from _plans(cut, least) if bound < math.inf else ()


def may_be_within(cut: Cut[T], count: int, budget: float, form: KernelForm) -> bool:
    """Whether a step of more micro-batches may be within a budget, by what is known of fewer.

    Its tensors have no fewer bytes than their share of the samples, and half of that as float16;
    those that are as large for any batch have more. Its kernels may be others, with workspaces of
    other sizes.

    Args:
        cut: of so many micro-batches or fewer, without float16, and with convolutions of that form.
        count: of micro-batches.
        budget: bytes of the arena, and of what is beside it.
        form: of the kernels.
    """
    share = cut.count / count / (2 if form.half else 1)
    return cut.least_within(budget, share * _ALIKE) < math.inf


def ways(cuts: Iterable[Cut[T]], count: int | None = None) -> list[Way[T]]:
    """All ways of which none is both slower and larger than another one, the fastest first.

    One of usual kernels stays beside one of others that takes the same time and fewer bytes.

    Args:
        cuts: of the step.
        count: for about so many of them, as far from each other in bytes: to pack a plan takes
            longer than to find it. They are chosen by peaks, which arenas hardly ever exceed.
    """
    every: list[Way[T]] = []
    for cut, least, _ in _timed(cuts):
        if _may_be_better(cut, least, every):
            every += (Way(cut, plan, seconds, plan.peak) for plan, seconds in _plans(cut, least))
            every.sort(key=lambda way: (way.seconds, way.cut.form, way.cut.count, way.nbytes))
    if count is None:
        return _best(every, _packed)
    best = _best(every, lambda way: way)
    return _best([best[at] for at in spaced([way.nbytes for way in best], count)], _packed)


def _may_be_better(cut: Cut[T], least: float, every: Sequence[Way[T]]) -> bool:
    """Whether some step may be faster than sorted ways in as many bytes, or be in fewer."""
    best = _best(every, lambda way: way)
    slower = [*(way.seconds for way in best[1:]), math.inf]
    return not best or any(
        least < seconds and cut.least_within(larger.nbytes - 1) < seconds
        for larger, seconds in zip(best, slower, strict=True)
    )


def _packed(way: Way[T]) -> Way[T]:
    """A way with the bytes of its arena, where it had the plan's peak."""
    return replace(way, arena_bytes=arena_of(way.cut.problem, way.plan))


def _best(every: Iterable[Way[T]], packed: Callable[[Way[T]], Way[T]]) -> list[Way[T]]:
    """Returns the sorted ways that are not both slower and larger than another one, as packed."""
    found: list[Way[T]] = []
    for way in every:
        if found and way.nbytes >= found[-1].nbytes:
            continue
        lower = packed(way)
        if found and lower.nbytes >= found[-1].nbytes:
            continue
        if found and (found[-1].seconds, found[-1].cut.form) == (way.seconds, way.cut.form):
            found.pop()
        found.append(lower)
    return found


def _timed(cuts: Iterable[Cut[T]]) -> Iterator[tuple[Cut[T], float, float]]:
    """The cuts, each with the least time of a step that runs so, and of it and all others left."""
    least = dict.fromkeys(FORMS, 0.0)
    for cut in cuts:
        form = cut.form
        least[form] = max(cut.seconds, *(least[each] for each in FORMS if each.is_below(form)))
        yield cut, least[form], least[USUAL]


def _plans(cut: Cut[T], least: float) -> Iterator[tuple[Plan, float]]:
    """Plans of a cut with their times, the fastest first; the others only if they are asked for."""
    first = _as_it_is(cut.problem)
    yield first, least
    for plan in cut.plans:
        if plan.sequence != first.sequence:
            yield plan, max(least, cut.count * plan.seconds)


def _as_it_is(problem: Recomputation) -> Plan:
    """The plan in which nothing runs again."""
    return plan_of(problem, range(len(problem.seconds)))
