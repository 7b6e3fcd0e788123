"""Tuning tasks of a training step: each distinct product, with its share of the step's time."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import tvm
import tvm_ffi
from tvm import tirx

from odtc.autoschedule.tuning.search import KernelDraft
from odtc.backends.cost.call_cost import call_cost
from odtc.backends.cost.workload import workload_of
from odtc.backends.decisions import Choice, Decisions
from odtc.backends.families import family_of
from odtc.backends.family.family import Family
from odtc.backends.kernels.product.fused import fused_product
from odtc.backends.pipeline.phases import fuse_phase, order_phase, rewrite_phase
from odtc.backends.targets import Target
from odtc.backends.vector_math import register_vector_math
from odtc.backends.write_products import write_product
from odtc.passes.contract import Pass, run_pipeline
from odtc.passes.ir.calls import Calls

# A workload with a smaller share of the step is left alone: its share is the most it could save.
LEAST_SHARE = 0.003


@dataclass(frozen=True, eq=False)
class TuningTask:
    """One workload of a step.

    Attributes:
        workload: see `odtc.backends.cost.workload`.
        kernel: the product and what is fused after it, without loops.
        names: of the kernels that compute it.
        calls: of them in a step.
        seconds: of all calls, by a model of the target: only proportions matter.
        share: of the step's seconds.
    """

    workload: str
    kernel: tirx.PrimFunc
    names: tuple[str, ...]
    calls: int
    seconds: float
    share: float

    @property
    def modelled(self) -> float:
        """Seconds of one call."""
        return self.seconds / self.calls


@dataclass(frozen=True, eq=False)
class Writer:
    """Writes the kernels of products for a target.

    Attributes:
        target: resolved.
        has_half: whether products may multiply float16.
    """

    target: Target
    has_half: bool = False

    @property
    def family(self) -> Family:
        """The family of the target."""
        return family_of(self.target, has_half=self.has_half)

    def written(self, kernel: tirx.PrimFunc, choice: Choice) -> tuple[tirx.PrimFunc, Decisions]:
        """The kernel with its loops, and the decisions for them.

        Raises:
            ValueError: it is no product, or the choice is none of this kernel.
        """
        product = fused_product(kernel)
        if product is None:
            raise ValueError("the kernel is no product")
        products = self.family.products
        machine, decisions = products.machine.telling(choice)
        with self.target.to_tvm():
            function = write_product(product, machine, products.loops)
        if decisions.unknown:
            raise ValueError(f"the kernel has no such choice: {decisions.unknown}")
        return function, decisions

    def draft(self, kernel: tirx.PrimFunc, choice: Choice) -> KernelDraft | None:
        """Writes a kernel with a choice for a search; None where it has no such choice."""
        try:
            function, decisions = self.written(kernel, choice)
        except ValueError:
            return None
        return KernelDraft(decisions.made, tvm_ffi.structural_hash(function))


def tasks_of(
    module: tvm.IRModule,
    target: Target,
    train_step: str,
    schedule: Sequence[Pass],
    rewrites: Sequence[Pass] = (),
    *,
    has_half: bool = False,
) -> list[TuningTask]:
    """The workloads of a step, those with most of it first.

    Arguments are those of `odtc.backends.lowering.to_kernels`. Workloads that take little of the
    step are left out.
    """
    register_vector_math()
    family = family_of(target, has_half=has_half)
    fuse = fuse_phase(family, train_step)
    with target.to_tvm():
        fused = run_pipeline((*rewrite_phase(train_step, family, rewrites), *fuse[:-1]), module)
        ordered = run_pipeline((*fuse[-1:], *schedule, *order_phase(train_step, family)), fused)
    calls = Counter(
        binding.value.args[0].name_hint
        for binding in Calls(ordered[train_step], _none(ordered)).bindings
    )
    cost = call_cost(target)
    seconds = {name: count * cost(ordered[name]).seconds for name, count in calls.items()}
    whole = sum(seconds.values())
    found: dict[str, list[str]] = {}
    kernels = {v.name_hint: f for v, f in fused.functions_items() if isinstance(f, tirx.PrimFunc)}
    # Launches that were merged are no kernels of the fused module, and no products.
    for name in (each for each in calls if each in kernels):
        product = fused_product(kernels[name])
        if product:
            found.setdefault(workload_of(product, family.products.machine), []).append(name)
    tasks = [
        TuningTask(
            workload,
            kernels[names[0]],
            tuple(names),
            sum(calls[name] for name in names),
            taken := sum(seconds[name] for name in names),
            taken / whole,
        )
        for workload, names in found.items()
    ]
    tasks.sort(key=lambda task: (-task.seconds, task.workload))
    return [task for task in tasks if task.share >= LEAST_SHARE]


def part_of(tasks: Sequence[TuningTask], number: int, count: int) -> list[TuningTask]:
    """Returns one of `count` parts of a step's tasks, counted from 1; all take about as long."""
    return list(tasks[number - 1 :: count])


def _none(module: tvm.IRModule) -> dict[tvm.ir.GlobalVar, int]:
    """Gives no kernel a workspace, as nothing is planned here."""
    return {variable: 0 for variable, _ in module.functions_items()}
