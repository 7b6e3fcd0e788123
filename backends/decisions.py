"""Decisions of kernels between a few candidates: by a model of the machine, or by a record.

A kernel asks its machine wherever its loops could have another shape: for a tile, for tasks, for
what is copied. Each decision has a name, candidates with those first that the model expects to be
good, and the one that the model takes. So whoever writes a kernel twice, once with nothing told and
once with another candidate, has searched: the candidates are nowhere said a second time.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Self

Value = tuple[int, ...]
# What a kernel is told: values by the names of decisions.
Choice = Mapping[str, Value]


@dataclass(frozen=True)
class TunedChoice:
    """A choice from a tuning record.

    Attributes:
        choice: of the decisions of a kernel.
        source: where that was measured, as text.
    """

    choice: Choice
    source: str


# From the text of a workload to the choice that a record has of it.
RecordLookup = Callable[[str], TunedChoice | None]


def no_records(_: str) -> TunedChoice | None:
    """The lookup that has no record of any workload."""
    return None


@dataclass(frozen=True)
class Decision:
    """One decision of a kernel that was written.

    Attributes:
        candidates: what it could be, by rising cost as far as the model knows.
        default: what the model takes.
        taken: what the kernel has.
    """

    candidates: tuple[Value, ...]
    default: Value
    taken: Value


@dataclass(frozen=True)
class Decisions:
    """The decisions of one kernel.

    Attributes:
        told: what it is told.
        made: what was decided, by name, once the kernel is written.
    """

    told: Choice = field(default_factory=dict)
    made: dict[str, Decision] = field(default_factory=dict)

    def decide(self, name: str, candidates: Iterable[Value], default: Value) -> Value:
        """Notes a decision; what is told is taken only if it is a candidate."""
        known = tuple(dict.fromkeys((default, *candidates)))
        told = self.told.get(name, default)
        taken = told if told in known else default
        self.made[name] = Decision(known, default, taken)
        return taken

    @property
    def unknown(self) -> dict[str, Value]:
        """Recorded decisions with a candidate that no kernel has: they are of another kernel."""
        return {
            name: value
            for name, value in self.told.items()
            if name not in self.made or self.made[name].taken != value
        }


@dataclass(frozen=True, kw_only=True)
class MachineModel:
    """A machine as kernels see it: what decides between candidates.

    Attributes:
        decisions: of the kernel that is written; None where nobody wants to know or tells.
    """

    decisions: Decisions | None = field(default=None, repr=False, compare=False)

    @property
    def multiplies(self) -> str:
        """The narrowest type that its products may multiply."""
        return "float32"

    def decide(self, name: str, candidates: Iterable[Value], default: Value) -> Value:
        """Returns the value of a decision."""
        return self.decisions.decide(name, candidates, default) if self.decisions else default

    def telling(self, choice: Choice) -> tuple[Self, Decisions]:
        """The same machine for one kernel, which it tells a choice; and what will be decided."""
        decisions = Decisions(choice)
        return replace(self, decisions=decisions), decisions
