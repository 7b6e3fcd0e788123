"""The numbers of micro-batches that a step may run as, each a step that can be planned.

Source ─draft, check─→ Cuts ─prepare, one after the other─→ Cut[Planned] ─build─→ Built
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product

import tvm
from tvm import relax

from odtc.backends.built import Built
from odtc.backends.lowering import Lowered, compile_planned, plan_kernels, to_kernels
from odtc.backends.objects.outlines import NotKeptError, Outlines
from odtc.backends.ordered import Ordered, in_order
from odtc.core.process.progress import Progress
from odtc.driver.drafts.draft import Draft
from odtc.driver.drafts.source import Source
from odtc.driver.parts import REFUSALS, Parts
from odtc.driver.training import Step, differentiate
from odtc.frontend.training import TRAIN_STEP
from odtc.passes.checkpoint.cuts import FORMS, USUAL, Cut, KernelForm, may_be_within
from odtc.passes.checkpoint.problem import Plan

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


@dataclass(frozen=True, eq=False)
class Planned:
    """A step that is compiled by plans.

    Attributes:
        step: its training graph; of a micro-batch, where it runs as several.
        ordered: its calls.
    """

    step: Step
    ordered: Ordered

    def lower(self, plans: Sequence[Plan]) -> Lowered:
        """Plans the storage of the step by each of some plans."""
        return self.ordered.lower(plans, self.step.training.origins)

    def name_of(self, task: int) -> str:
        """The result of a call, in words of the model."""
        return self.ordered.name_of(task, self.step.training.origins)


class Cuts:
    """The numbers of micro-batches that a step may run as, each prepared when it is asked for.

    Of each there is one for each form of kernels: with direct convolutions where the workspaces of
    others are large beside what the step needs, and with float16 where the user allows it. Of these
    again there are two, where tensors may wait in storage: after the one in which they may is one
    in which gradients are written over what their calls read last, which leaves nothing to fetch.
    """

    def __init__(
        self,
        source: Source,
        progress: Progress,
        whole: Draft | None = None,
        *,
        for_plans: bool = False,
    ) -> None:
        """Takes up what the user asks for; what else is possible is found out when it is needed.

        Args:
            source: what the step is made from.
            progress: called with the name of each stage as it starts.
            whole: the draft of the whole batch, where there is one already.
            for_plans: whether plans are all that is wanted, and nothing is built: evaluations are
                left out then, which have a third of the kernels.

        Raises:
            UsageError: the number that is asked for does not divide the batch.
            UnsupportedError: the step cannot run as so many micro-batches.
        """
        self._parts = Parts(source, whole)
        self._source, self._progress = self._parts.source, progress
        self._for_plans = for_plans
        self._waits = (True, False) if source.options.offload else (False,)
        self._steps: dict[int, Step] = {}
        self._kernels: dict[tuple[int, KernelForm], Prepared] = {}
        self._made: dict[tuple[int, KernelForm, bool], Cut[Planned]] = {}

    @property
    def refusal(self) -> str:
        """Why the step cannot run as micro-batches.

        Empty where it can, and where the user says how many there are.
        """
        return self._parts.refusal

    @property
    def has_batch_norms(self) -> bool:
        """Whether statistics of the batch are taken."""
        return self._parts.has_batch_norms

    @cached_property
    def _forms(self) -> Sequence[KernelForm]:
        """Of kernels, that are allowed and may help."""
        half = self._source.options.allow_half_activations
        first = self._cut(self._parts.counts[0], USUAL, waits=self._waits[0])
        saved = first.made.ordered.winograd_bytes
        most = KernelForm(half, direct=saved >= _WORTH * first.problem.largest)
        return [form for form in FORMS if form.is_below(most)]

    def build_first(self) -> tuple[Step, Built]:
        """Compiles the step as it is usually made, with the fewest micro-batches."""

        def build(outlines: Outlines) -> tuple[Step, Built]:
            step, lowered = self.lower_first(outlines)
            self._progress("compile the kernels")
            (built,) = compile_planned([lowered], self._source.target, apart=True)
            return step, built

        try:
            return build(Outlines.KEPT)
        except NotKeptError:
            return build(Outlines.ANEW)

    def lower_first(self, outlines: Outlines) -> tuple[Step, Lowered]:
        """Plans the storage of the step as it is usually made, with the fewest micro-batches."""
        prepared = self._lowered(self._parts.fewest, USUAL, outlines)
        origins, target = prepared.step.training.origins, self._source.target
        return prepared.step, plan_kernels(prepared.scheduled, target, TRAIN_STEP, origins=origins)

    def peak_for(self, threads: int) -> int:
        """Bytes that are alive at once in the step as it is, were it made for so many threads."""
        return self._cut(self._parts.counts[0], USUAL, waits=False).made.ordered.peak_for(threads)

    def __iter__(self) -> Iterator[Cut[Planned]]:
        """The cuts, by rising numbers of micro-batches."""
        return self.within(math.inf)

    def within(self, budget: float) -> Iterator[Cut[Planned]]:
        """The cuts but for those of which it is known beforehand that none of their plans fits.

        Args:
            budget: bytes of the arena, and of what is beside it.
        """
        known: dict[tuple[bool, bool], Cut[Planned]] = {}
        for count, form, waits in product(self._parts.counts, self._forms, self._waits):
            key = form.direct, waits
            if key in known and not may_be_within(known[key], count, budget, form):
                continue
            try:
                cut = self._cut(count, form, waits=waits)
            except REFUSALS:
                if not known:
                    raise
                # A part may be too small, as for the variance of one value.
                return
            if not form.half:
                known[key] = cut
            yield cut

    def _cut(self, count: int, form: KernelForm, *, waits: bool) -> Cut[Planned]:
        if (count, form, waits) not in self._made:
            prepared, source = self._prepared(count, form), self._source
            ordered = in_order(
                prepared.scheduled, source.target, TRAIN_STEP, source.measured.times, offload=waits
            )
            made = Planned(prepared.step, ordered)
            beside = prepared.step.accumulator_bytes
            self._made[count, form, waits] = Cut(count, ordered.problem, beside, made, form)
        return self._made[count, form, waits]

    def _prepared(self, count: int, form: KernelForm) -> Prepared:
        if (count, form) not in self._kernels:
            self._kernels[count, form] = self._lowered(count, form, Outlines.NEVER)
        return self._kernels[count, form]

    def _lowered(self, count: int, form: KernelForm, outlines: Outlines) -> Prepared:
        step, source = self._step(count), self._source
        if form.half:
            step = replace(step, source=replace(step.source, saves_half=True))
        of_parts = f"make those of {count} micro-batches"
        self._progress("make the kernels" if count == 1 else of_parts)
        of = {
            "has_half": source.has_half,
            "records": source.measured.records,
            "direct": form.direct,
        }
        module, *others = step.kernels
        if self._for_plans:
            module = _alone(module, TRAIN_STEP)
        return Prepared(step, to_kernels(module, *others, **of, outlines=outlines))

    def _step(self, count: int) -> Step:
        if count not in self._steps:
            smaller = () if self._for_plans else self._parts.evaluated(count)
            self._steps[count] = differentiate(self._parts.draft(count), self._progress, smaller)
        return self._steps[count]


def _alone(module: tvm.IRModule, name: str) -> tvm.IRModule:
    """A module of one of its functions of Relax, which calls no other, and its kernels."""
    functions = {
        variable: function
        for variable, function in module.functions_items()
        if variable.name_hint == name or not isinstance(function, relax.Function)
    }
    return tvm.IRModule(functions, attrs=module.attrs)
