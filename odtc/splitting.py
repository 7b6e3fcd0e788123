"""The numbers of micro-batches that a step may run as, each a step that can be planned.

Source ─draft, check─→ Cuts ─prepare, one after the other─→ Cut[Planned] ─build─→ Built
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product

import numpy as np
import tvm

from odtc.backends.built import Built
from odtc.backends.lowering import build_kernels, to_kernels
from odtc.backends.ordered import Ordered, in_order
from odtc.core.errors import ModelError, UnsupportedError, UsageError
from odtc.core.progress import Progress
from odtc.frontend.graph import Graph
from odtc.frontend.split.check import batch_norms, check_part, check_whole
from odtc.frontend.training import TRAIN_STEP
from odtc.passes.checkpoint.cuts import FORMS, USUAL, Cut, Form, may_be_within
from odtc.passes.checkpoint.problem import Plan
from odtc.preparation import Draft, Source, Step, differentiate, draft_of

# What is said of a step that cannot be cut. A model of a fixed batch may not take another one.
_REFUSALS = (ModelError, UnsupportedError)
# Of what the largest call needs, what a workspace has to be for a step without it to be made, too.
_WORTH = 0.125


@dataclass(frozen=True, eq=False)
class Prepared:
    """A step, and its kernels.

    Attributes:
        step: its training graph; of a micro-batch, where it runs as several.
        scheduled: its kernels.
    """

    step: Step
    scheduled: tvm.IRModule

    def build(self) -> Built:
        """Compiles the step as it is."""
        target, origins = self.step.source.target, self.step.training.origins
        return build_kernels(self.scheduled, target, TRAIN_STEP, origins=origins)


@dataclass(frozen=True, eq=False)
class Planned:
    """A step that is compiled by plans.

    Attributes:
        step: its training graph; of a micro-batch, where it runs as several.
        ordered: its calls.
    """

    step: Step
    ordered: Ordered

    def build(self, plans: Sequence[Plan]) -> Built:
        """Compiles the step by each of some plans."""
        return self.ordered.build(plans, self.step.training.origins)

    def name_of(self, task: int) -> str:
        """What a call makes, in words of the model."""
        return self.ordered.name_of(task, self.step.training.origins)


class Cuts:
    """The numbers of micro-batches that a step may run as, each prepared when it is asked for.

    Of each there is one for each form of kernels: with direct convolutions where the workspaces of
    others are large beside what the step needs, and with float16 where the user allows it. Of these
    again there are two, where tensors may wait in storage: behind the one in which they may is one
    in which gradients are written over what their calls read last, which leaves nothing to fetch.
    """

    def __init__(self, source: Source, progress: Progress, whole: Draft | None = None) -> None:
        """Takes up what the user asks for; what else is possible is found out when it is needed.

        Args:
            source: what the step is made from.
            progress: called with the name of each stage as it starts.
            whole: the draft of the whole batch, where there is one already.

        Raises:
            UsageError: the number that is asked for does not divide the batch.
            UnsupportedError: the step cannot run as so many micro-batches.
        """
        self._whole = draft_of(source) if whole is None else whole
        self._source, self._progress = self._whole.source, progress
        self._drafts = {1: self._whole}
        self._waits = (True, False) if source.offload else (False,)
        self._steps: dict[int, Step] = {}
        self._kernels: dict[tuple[int, Form], Prepared] = {}
        self._made: dict[tuple[int, Form, bool], Cut[Planned]] = {}
        self._divisors = _divisors(self._whole.batch)
        self._asked = source.options.get("micro_batches")
        if self._asked is not None:
            self._ask(_known(self._asked, self._divisors))

    @cached_property
    def refusal(self) -> str:
        """Why the step cannot run as micro-batches.

        Empty where it can, and where the user says how many there are.
        """
        if self._asked is not None:
            return ""
        try:
            self._draft(next(iter(self._divisors[1:]), 1))
        except _REFUSALS as error:
            return error.what
        return ""

    @property
    def _counts(self) -> list[int]:
        """What is possible, and not ruled out by the user."""
        if self._asked is not None:
            return [self._asked]
        return self._divisors[:1] if self.refusal else self._divisors

    @property
    def has_batch_norms(self) -> bool:
        """Whether statistics of the batch are taken."""
        return bool(batch_norms(self._whole.graph, self._whole.selection))

    @cached_property
    def _forms(self) -> Sequence[Form]:
        """Of kernels, that are allowed and may help."""
        half = self._source.options.get("allow_half_activations", False)
        first = self._cut(self._counts[0], USUAL, self._waits[0])
        saved = first.made.ordered.winograd_bytes
        most = Form(half, direct=saved >= _WORTH * first.problem.largest)
        return [form for form in FORMS if form.is_below(most)]

    def first_draft(self) -> Draft:
        """The draft of the step with the fewest micro-batches."""
        return self._draft(self._asked or 1)

    def first(self) -> Prepared:
        """The step as it is usually made, with the fewest micro-batches."""
        return self._prepared(self._asked or 1, USUAL)

    def __iter__(self) -> Iterator[Cut[Planned]]:
        """The cuts, by rising numbers of micro-batches."""
        return self.within(math.inf)

    def within(self, budget: float) -> Iterator[Cut[Planned]]:
        """The cuts but for those of which it is known beforehand that none of their plans fits.

        Args:
            budget: bytes of the arena, and of what is beside it.
        """
        known: dict[tuple[bool, bool], Cut[Planned]] = {}
        for count, form, waits in product(self._counts, self._forms, self._waits):
            key = form.direct, waits
            if key in known and not may_be_within(known[key], count, budget, form):
                continue
            try:
                cut = self._cut(count, form, waits)
            except _REFUSALS:
                if not known:
                    raise
                # A part may be too small, as for the variance of one value.
                return
            if not form.half:
                known[key] = cut
            yield cut

    def _cut(self, count: int, form: Form, waits: bool) -> Cut[Planned]:
        if (count, form, waits) not in self._made:
            prepared, source = self._prepared(count, form), self._source
            ordered = in_order(
                prepared.scheduled, source.target, TRAIN_STEP, source.times, offload=waits
            )
            made = Planned(prepared.step, ordered)
            beside = prepared.step.accumulator_bytes
            self._made[count, form, waits] = Cut(count, ordered.problem, beside, made, form)
        return self._made[count, form, waits]

    def _prepared(self, count: int, form: Form) -> Prepared:
        if (count, form) not in self._kernels:
            step, source = self._step(count), self._source
            if form.half:
                step = replace(step, source=replace(step.source, saves_half=True))
            of_parts = f"make those of {count} micro-batches"
            self._progress("make the kernels" if count == 1 else of_parts)
            of = {"has_half": source.has_half, "book": source.book, "direct": form.direct}
            self._kernels[count, form] = Prepared(step, to_kernels(*step.kernels, **of))
        return self._kernels[count, form]

    def _step(self, count: int) -> Step:
        if count not in self._steps:
            self._steps[count] = differentiate(self._draft(count), self._progress)
        return self._steps[count]

    def _draft(self, count: int) -> Draft:
        """The draft of a micro-batch, which computes for its samples what the whole one does."""
        if count not in self._drafts:
            whole = self._whole
            allowed = self._source.options.get("allow_split_batchnorm", False)
            check_whole(whole.graph, whole.objective, whole.selection, allow_batch_norm=allowed)
            part = draft_of(self._source, whole.batch, count)
            _share_weights(whole.graph, part.graph)
            check_part(whole.graph, part.graph, part.selection)
            part = replace(part, objective=replace(part.objective, places=whole.objective.places))
            part.graph.notes.extend(_notes(part))
            self._drafts[count] = part
        return self._drafts[count]

    def _ask(self, count: int) -> None:
        try:
            self._draft(count)
        except _REFUSALS as error:
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


def _share_weights(whole: Graph, part: Graph) -> None:
    """Gives both the same arrays, so that the weights are in memory once."""
    same = whole.parameters.keys() == part.parameters.keys() and all(
        np.array_equal(value, part.parameters[name], equal_nan=True)
        for name, value in whole.parameters.items()
    )
    if not same:
        raise UnsupportedError("the model has other weights with a smaller batch")
    part.parameters = dict(whole.parameters)


def _notes(part: Draft) -> Iterator[str]:
    """What a user should know of a step of micro-batches."""
    yield (
        f"a step runs as {part.micro_batches} micro-batches of {part.batch // part.micro_batches} "
        "samples, whose gradients are added up"
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
