"""Proposes the next choices of a task: a pure function of the measurements.

Of all decisions in turns, the next candidate in the order in which the model of the machine has
them, on top of the best choice so far: so the first trials of a task are of all that could be wrong
with it. A decision is left alone after some candidates that were no better, and all is over after a
round that changed nothing. So a search needs neither a clock nor
randomness: resumed with the same measurements, it makes the same proposals.
"""

from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass

from odtc.backends.decisions import Choice, Decision, Value

# Least gain of a choice over the best one so far.
BETTER = 1.01
# Candidates in a row that were no better, after which a decision is left alone.
_PATIENCE = 8
_ROUNDS = 2
# Candidates that are measured at once.
BATCH = 4

# Yields choices, is sent the gain of each over the usual kernel, and returns the best.
Search = Generator[list[Choice], Sequence[float], "Best"]


@dataclass(frozen=True)
class KernelDraft:
    """A kernel that was written, and not compiled.

    Attributes:
        decisions: of it, by name.
        code: hash, the same for equal kernels.
    """

    decisions: Mapping[str, Decision]
    code: int


# From a choice to the kernel; None where no kernel can have it.
Write = Callable[[Choice], KernelDraft | None]


@dataclass(frozen=True)
class Best:
    """The best choice so far.

    Attributes:
        choice: the decisions.
        gain: over the usual kernel.
    """

    choice: Choice
    gain: float = 1.0


def search(write: Write) -> Search:
    """The search of a task."""
    best, usual = Best({}), write({})
    tried = {usual.code} if usual else set()
    for _ in range(_ROUNDS):
        before = best
        best = yield from _round(best, write, tried)
        if best is before:
            break
    return best


def _round(
    best: Best, write: Write, tried: set[int]
) -> Generator[list[Choice], Sequence[float], Best]:
    """Tries the candidates of all decisions, each on top of the best choice by then."""
    draft = write(best.choice)
    decisions = draft.decisions if draft else {}
    moves = deque(_in_turns(decisions))
    misses = Counter[str]()
    while batch := _batch(best.choice, moves, write, tried, misses):
        gains = yield [choice for _, choice in batch]
        for (name, choice), gain in zip(batch, gains, strict=True):
            if gain > best.gain * BETTER:
                best, misses[name] = Best(choice, gain), 0
            else:
                misses[name] += 1
    return best


def _in_turns(decisions: Mapping[str, Decision]) -> Iterator[tuple[str, Value]]:
    """The candidates of all decisions: the first one of each, the second one of each, ..."""
    most = max((len(each.candidates) for each in decisions.values()), default=0)
    for at in range(most):
        for name, each in decisions.items():
            if at < len(each.candidates):
                yield name, each.candidates[at]


def _batch(
    start: Choice,
    moves: deque[tuple[str, Value]],
    write: Write,
    tried: set[int],
    misses: Counter[str],
) -> list[tuple[str, Choice]]:
    """The next choices that are one decision away, and whose kernels are new."""
    batch: list[tuple[str, Choice]] = []
    while moves and len(batch) < BATCH:
        name, value = moves.popleft()
        draft = write({**start, name: value}) if misses[name] < _PATIENCE else None
        if draft and draft.code not in tried:
            tried.add(draft.code)
            batch.append((name, _told({**start, name: value}, draft)))
    return batch


def _told(choice: Choice, draft: KernelDraft) -> Choice:
    """A choice without the decisions that the model would make anyway."""
    return {name: value for name, value in choice.items() if draft.decisions[name].default != value}
