"""The numbers of micro-batches that a step may run as, and the draft of each.

Source ─draft, check─→ Parts; what is made of the drafts is in `odtc/driver/splitting.py`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property

from odtc.core.errors import ModelError, UnsupportedError, UsageError
from odtc.driver.drafts.draft import Draft
from odtc.driver.drafts.drafting import draft_of
from odtc.driver.drafts.evaluated import evaluated_graphs, share_weights
from odtc.driver.drafts.source import Source
from odtc.frontend.graph import Graph, samples_of
from odtc.frontend.split.check import batch_norms, check_part, check_whole

# What is said of a step that cannot be cut. A model of a fixed batch may not take another one.
REFUSALS = (ModelError, UnsupportedError)


class Parts:
    """The drafts of a step as so many micro-batches, each made when it is asked for.

    Attributes:
        source: what they are made from, with what the whole draft found of it.
    """

    def __init__(self, source: Source, whole: Draft | None = None) -> None:
        """Takes up what the user asks for; see `Cuts` for the arguments and errors."""
        self._whole = draft_of(source) if whole is None else whole
        self.source = self._whole.source
        self._drafts = {1: self._whole}
        self._divisors = _divisors(self._whole.batch)
        self._asked = source.options.micro_batches
        self._evaluated = evaluated_graphs(self._whole)
        if self._asked is not None:
            self._ask(_known(self._asked, self._divisors))

    @property
    def fewest(self) -> int:
        """The fewest micro-batches that the step may run as."""
        return self._asked or 1

    @cached_property
    def refusal(self) -> str:
        """Why the step cannot run as micro-batches.

        Empty where it can, and where the user says how many there are.
        """
        if self._asked is not None:
            return ""
        try:
            self.draft(next(iter(self._divisors[1:]), 1))
        except REFUSALS as error:
            return error.what
        return ""

    @property
    def counts(self) -> list[int]:
        """Counts that are possible, and not ruled out by the user."""
        if self._asked is not None:
            return [self._asked]
        return self._divisors[:1] if self.refusal else self._divisors

    @property
    def has_batch_norms(self) -> bool:
        """Whether statistics of the batch are taken."""
        return bool(batch_norms(self._whole.graph, self._whole.selection))

    def draft(self, count: int) -> Draft:
        """The draft of a micro-batch, which computes for its samples what the whole one does."""
        if count not in self._drafts:
            whole = self._whole
            allowed = self.source.options.allow_split_batchnorm
            check_whole(whole.graph, whole.objective, whole.selection, allow_batch_norm=allowed)
            part = draft_of(self.source, whole.batch, count)
            share_weights(whole.graph, part.graph)
            check_part(whole.graph, part.graph, part.selection)
            found = whole.objective
            its = replace(part.objective, places=found.places, declared=found.declared)
            part = replace(part, objective=its)
            part.graph.notes.extend(_notes(part))
            self._drafts[count] = part
        return self._drafts[count]

    def evaluated(self, count: int) -> Sequence[Graph]:
        """Graphs to evaluate fewer samples than a micro-batch has, the most first."""
        return [each for each in self._evaluated if samples_of(each) * count < self._whole.batch]

    def _ask(self, count: int) -> None:
        try:
            self.draft(count)
        except REFUSALS as error:
            raise UnsupportedError(
                f"the step cannot run as {count} micro-batches: {error.what}",
                where=error.where,
                hint=error.hint,
            ) from error


def _divisors(batch: int) -> list[int]:
    return [count for count in range(1, batch + 1) if batch % count == 0]


def _known(count: int, divisors: list[int]) -> int:
    if count not in divisors:
        raise UsageError(
            f"{count} micro-batches do not divide a batch of {divisors[-1]}",
            where="micro_batches",
            hint=f"one of: {', '.join(map(str, divisors))}",
        )
    return count


def _notes(part: Draft) -> Iterator[str]:
    """Notes on a step of micro-batches for the user."""
    yield (
        f"a step runs as {part.micro_batches} micro-batches of {part.batch // part.micro_batches} "
        "samples, whose gradients are added up"
    )
    most = part.batch // part.micro_batches
    cut = [n for n in sorted(part.source.options.evaluated) if most < n < part.batch]
    if cut:
        yield (
            f"evaluations of {', '.join(map(str, cut))} samples run as micro-batches, which are "
            "smaller"
        )
    nodes = batch_norms(part.graph, part.selection)
    if nodes:
        yield (
            f"{len(nodes)} batch normalisations take the statistics of each micro-batch, not those "
            "of the batch, and their running statistics move once for each"
        )
    if any(node.op_type == "Dropout" for node in part.graph.nodes):
        yield "dropout has a mask for each micro-batch: others than for the batch as a whole"
    if any(node.op_type == "RandomUniform" for node in part.graph.nodes):
        yield "random tensors are drawn for each micro-batch: others than for the batch as a whole"
