"""`manifest_of`: the description that an artifact holds of its step."""

import dataclasses
import json
from collections.abc import Sequence
from importlib.metadata import version

from odtc.backends.built import Built
from odtc.backends.targets import Target
from odtc.core.artifact.layout_plan import read_layout_plan
from odtc.core.artifact.manifest import Manifest, Shorter, Sizes, StepPlan
from odtc.core.specs import (
    FED_ROLES,
    STORAGE,
    WEIGHT_ROLES,
    Argument,
    Role,
    TensorSpec,
    free_name,
    of_role,
)
from odtc.core.version import VERSION
from odtc.driver.fitting import BuiltPlans
from odtc.frontend.losses.terms import terms_text
from odtc.frontend.training import TRAIN_STEP


def manifest_of(name: str, digest: str, every: Sequence[BuiltPlans]) -> Manifest:
    """The manifest, without the hashes of the other members.

    Args:
        name: of the model's file.
        digest: of its content.
        every: the step at each of its lengths, the longest first.
    """
    made, *shorter = every
    step, built = made.step, made.built
    source, training, update = step.source, step.training, step.source.update
    return Manifest(
        odtc=VERSION,
        tvm=version("apache-tvm"),
        target=source.target.spec,
        triple=source.target.triple,
        model=name,
        model_sha256=digest,
        loss=terms_text(source.terms),
        optimizer={"name": update.rule.name, **dataclasses.asdict(update.rule)},
        update=update.options(),
        precision=source.options.precision,
        micro_batches=step.draft.micro_batches,
        arguments=(*training.arguments, *_storage(built, training.arguments)),
        plans=_plans(made),
        evaluations=training.evaluations,
        sizes=Sizes(
            parameters=step.nbytes_of(*WEIGHT_ROLES),
            optimizer=step.nbytes_of(Role.STATE, Role.AVERAGE),
            accumulators=step.accumulator_bytes,
            train_step=built.planned_bytes[TRAIN_STEP],
            evaluate=_evaluate(made),
        ),
        notes=tuple(step.draft.graph.notes),
        adapters=step.draft.adapters,
        tuned=built.tuned,
        layouts=read_layout_plan(json.loads(built.layouts)) if built.layouts else None,
        bound=step.draft.graph.bound,
        normalized=source.normalized,
        columns=source.columns,
        kernels=_kernels(built, source.target),
        coded=tuple(step.draft.graph.coded.values()),
        counted=step.draft.graph.counted,
        length=source.length,
        shorter=tuple(map(_shorter, shorter)),
    )


def _shorter(made: BuiltPlans) -> Shorter:
    training = made.step.training
    return Shorter(
        length=made.step.source.length,
        fed=tuple(of_role(training.arguments, *FED_ROLES)),
        plans=_plans(made),
        evaluations=training.evaluations,
        train_step=made.built.planned_bytes[TRAIN_STEP],
        evaluate=_evaluate(made),
    )


def _plans(made: BuiltPlans) -> tuple[StepPlan, ...]:
    return tuple(
        StepPlan(each.function, each.arena_bytes, time)
        for each, time in zip(made.built.steps, made.times, strict=True)
    )


def _evaluate(made: BuiltPlans) -> int:
    """Bytes of the largest evaluation."""
    planned = made.built.planned_bytes
    return max(planned[item.function] for item in made.step.training.evaluations)


def _kernels(built: Built, target: Target) -> dict[str, int]:
    """Bytes of the kernels for each CPU, where the target has several."""
    if not target.also:
        return {}
    cpus = enumerate(target.cpus)
    return {str(cpu.mcpu): built.objects.bytes_of(number) for number, cpu in cpus}


def _storage(built: Built, others: Sequence[Argument]) -> tuple[Argument, ...]:
    """The argument in which tensors wait, where some do."""
    size, taken = built.stored_bytes, {item.spec.name for item in others}
    spec = TensorSpec(free_name(STORAGE, taken), (size,), "uint8")
    return (Argument(Role.STORAGE, spec),) if size else ()
