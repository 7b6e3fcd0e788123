"""The pipeline of a training graph down to a planned module: a table for each phase.

    rewrite   what the step reads and saves
    fuse      legalise to kernels, absorb transposes, fuse elementwise chains
    schedule  how each kernel runs on the target: rules that the caller brings
    order     kernels lose their blocks, calls get their order
    plan      calls become direct, storage is planned

A row is a pass as text, and when it runs. What the pass is made with beside its text, such as the
kernels of the target, is in `backends/pipeline/known.py`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain

from odtc.backends.family.family import Family
from odtc.backends.pipeline.known import known_passes
from odtc.backends.pipeline.options import PipelineOptions
from odtc.core.artifact.memory_plan import Origin
from odtc.passes.contract import Pass, Pipeline
from odtc.passes.pipeline.text import parse_pipeline
from odtc.passes.schedule.insert_checkpoints import InsertCheckpoints

# Whether the pass of a name runs.
When = Callable[[PipelineOptions, str], bool]


def always(of: PipelineOptions, name: str) -> bool:
    """It runs for each target and module."""
    del of, name
    return True


def trains(of: PipelineOptions, name: str) -> bool:
    """The module has a training step."""
    del name
    return of.train_step is not None


def brought(of: PipelineOptions, name: str) -> bool:
    """The target's family brings it, or the caller asks for it."""
    return name in of.brought


def reads_normalised(of: PipelineOptions, name: str) -> bool:
    """Kernels of the target normalise what they read."""
    return trains(of, name) and of.family.most_copies > 0


def writes_over(of: PipelineOptions, name: str) -> bool:
    """Kernels may write in place, and nothing that they write over is fetched again."""
    return trains(of, name) and of.family.writes_over and not of.may_wait


def groups_updates(of: PipelineOptions, name: str) -> bool:
    """A call takes longer than what it does."""
    return trains(of, name) and of.family.update_buffers is not None


def has_steps(of: PipelineOptions, name: str) -> bool:
    """Functions are training steps."""
    del name
    return bool(of.steps)


@dataclass(frozen=True)
class Row:
    """One pass of a phase.

    Attributes:
        text: of the pass.
        when: whether it runs.
    """

    text: str
    when: When = always

    @property
    def name(self) -> str:
        """The pass's name."""
        return self.text.partition("{")[0]


REWRITE = (
    # Names that say where tensors come from, for what has none so far.
    Row("name-tensors", trains),
    Row("absorb-activation", reads_normalised),
    # Layouts are chosen first: the rest of a step that keeps them is as if nobody had asked.
    Row("select-layouts", brought),
    Row("read-normalised", reads_normalised),
    # What is saved is decided before it is rounded.
    Row("slice-splits", trains),
    Row("recompute-maps", trains),
    Row("read-copies", trains),
    Row("half-storage", brought),
    Row("absorb-activation", trains),
)

FUSE = (
    Row("chunk-logits"),
    Row("update-rows", brought),
    Row("add-rows", brought),
    Row("spell-out-attention", brought),
    Row("join-reshapes"),
    # Products take it in as they do transposes.
    Row("read-quantised", brought),
    Row("absorb-transpose"),
    # Casts and slices are kept at first: kernels look through them for what is stored.
    Row("legalize{stay=true}"),
    Row("name-tensors", trains),
    # A tuple that is only taken apart again, as of the gradient of a split, is none: FuseOps
    # mixes up the arguments of a kernel that takes elements of several tuples.
    Row("tvm.CanonicalizeBindings"),
    Row("tvm.DeadCodeElimination"),
    Row("legalize{stay=false}"),
    Row("tvm.AnnotateTIROpPattern"),
    Row("fold-constants"),
    # Of what constants cannot make, which is by now a kernel whose class is known.
    Row("recompute-frozen", trains),
    Row("fuse-named"),
    Row("tvm.FuseTIR"),
    # Before the kernels are scheduled: a scheduled reshape is not known for one any more.
    Row("tvm.RewriteDataflowReshape"),
    Row("tvm.DeadCodeElimination"),
    Row("recall-kernels", brought),
    Row("write-products"),
)

ORDER = (
    Row("tvm.ToNonDataflow"),
    Row("tvm.RemovePurityChecking"),
    Row("flat-elements", brought),
    Row("write-totals", brought),
    # Blocks of kernels become loops.
    Row("by-kernel", brought),
    Row("narrow-indices", brought),
    Row("bind-loops", brought),
    Row("gather-marks", brought),
    Row("note-needs"),
    Row("immediate-update", trains),
    Row("write-over", writes_over),
    Row("order-calls"),
    Row("group-updates", groups_updates),
)

# Nothing may merge or reorder calls after it.
PLAN = (
    # Of plans in which some calls run again, which have their order by then.
    Row("insert-checkpoints", brought),
    Row("note-writes"),
    Row("tvm.CallTIRRewrite"),
    Row("return-loss", has_steps),
    Row("lift-workspaces", brought),
    Row("lift-device-workspaces", brought),
    Row("plan-memory"),
    Row("take-offsets"),
    Row("half-in-memory", brought),
    Row("keep-nan"),
    Row("hide-remainders", brought),
    Row("check-launches", brought),
)

ARENA = (Row("take-arena"),)

PHASES = (REWRITE, FUSE, ORDER, PLAN, ARENA)


def passes_of(phase: Sequence[Row], of: PipelineOptions) -> Pipeline:
    """The passes of a phase that run."""
    known = known_passes(of)
    rows = [row for row in phase if row.when(of, row.name)]
    return tuple(chain.from_iterable(parse_pipeline(row.text, known) for row in rows))


def pipeline_of(of: PipelineOptions) -> Pipeline:
    """The whole pipeline, as of a compile."""
    return (
        *rewritten(of),
        *passes_of(FUSE, of),
        *of.schedule,
        *planned(of),
        *passes_of(ARENA, of),
    )


def rewritten(of: PipelineOptions) -> Pipeline:
    """The first phase.

    Raises:
        ValueError: the caller asks for a pass that has no row.
    """
    rows = {row.name for row in REWRITE}
    lost = [str(each) for each in of.rewrites if each.title not in rows]
    if lost:
        raise ValueError(f"no row for {', '.join(lost)}")
    return passes_of(REWRITE, of)


def planned(of: PipelineOptions) -> Pipeline:
    """The phases after the kernels are scheduled."""
    return passes_of(PLAN if of.checkpoints else (*ORDER, *PLAN), of)


def rewrite_phase(
    train_step: str | None, family: Family, rewrites: Sequence[Pass] = ()
) -> Pipeline:
    """Relax operators to better ones; `rewrites` are the caller's own."""
    return rewritten(PipelineOptions(family, train_step, rewrites))


def fuse_phase(
    family: Family, train_step: str | None = None, recall: Sequence[Pass] = ()
) -> Pipeline:
    """Relax operators to fused kernels; the last pass writes products."""
    return passes_of(FUSE, PipelineOptions(family, train_step, recall=recall))


def order_phase(train_step: str | None, family: Family, *, may_wait: bool = False) -> Pipeline:
    """Kernel calls in the order in which they run.

    Args:
        train_step: name of the training step.
        family: of the target.
        may_wait: whether tensors may wait in storage.
    """
    return passes_of(ORDER, PipelineOptions(family, train_step, may_wait=may_wait))


def plan_phase(
    train_step: str | None,
    family: Family,
    origins: Sequence[Origin] = (),
    checkpoints: InsertCheckpoints | None = None,
) -> Pipeline:
    """Kernel calls to direct calls on planned storage.

    Args:
        train_step: name of the training step.
        family: of the target.
        origins: of the tensors that the variables of the training step are named by.
        checkpoints: what lets calls run again, which have their order by then.
    """
    return planned(PipelineOptions(family, train_step, origins=origins, checkpoints=checkpoints))
