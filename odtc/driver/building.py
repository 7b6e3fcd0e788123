"""`build`: from an ONNX file to the members of an artifact.

read -> decide on micro-batches and recomputation -> lower and build -> link -> seal
"""

import dataclasses
import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

from odtc.backends.built import Built
from odtc.backends.cpus import told_features
from odtc.backends.objects.elf import check_library
from odtc.backends.objects.library import export_library
from odtc.backends.program.lines import Lines
from odtc.backends.program.program import program_of
from odtc.backends.program.write import program_bytes
from odtc.backends.targets import Target
from odtc.core.artifact import bundle as bundles
from odtc.core.artifact.layout_plan import read_layout_plan
from odtc.core.artifact.manifest import Manifest, Sizes, StepPlan
from odtc.core.artifact.memory_plan import memory_plans_json
from odtc.core.disk.files import private_folder
from odtc.core.disk.left_behind import remove_folder
from odtc.core.disk.tensor_file import write_tensors
from odtc.core.errors import UsageError
from odtc.core.onnx_model.weights import strip_weights
from odtc.core.options.byte_sizes import AUTO
from odtc.core.process.one_at_a_time import one_at_a_time
from odtc.core.process.progress import Progress
from odtc.core.process.quick import without_collections
from odtc.core.specs import STORAGE, WEIGHT_ROLES, Argument, Role, TensorSpec
from odtc.core.version import VERSION
from odtc.driver.fitting import BuiltPlans, build_step
from odtc.driver.preparation import Source, read_source
from odtc.driver.step_options import StepOptions
from odtc.frontend.graph import Graph
from odtc.frontend.losses.terms import terms_text
from odtc.frontend.training import TRAIN_STEP
from odtc.frontend.weights.in_file import put_into
from odtc.passes.checkpoint.cuts import KernelForm
from odtc.passes.memory.packing.problem import TENSOR_ALIGNMENT
from odtc.runtime_rpc.state.same_run import step_identity
from odtc.step_cache.store import KeptStep

# What is said of a step that would not fit otherwise.
DIRECT_CONVOLUTIONS = (
    "no convolution is in Winograd's form, whose workspaces do not fit: results are rounded "
    "otherwise than without a budget"
)
HALF_ACTIVATIONS = (
    "what the backward pass reads of the forward pass is stored as float16: the loss is exact, and "
    "gradients are those of values rounded by at most 1 part in 2,048, or by 3e-8 where they are "
    "below 6e-5"
)


@one_at_a_time
@without_collections()
def build(
    model: Path,
    target: Target,
    options: StepOptions,
    budget: int | str | None,
    progress: Progress,
) -> KeptStep:
    """Builds the training step of a model; see `odtc.compile` for the arguments and errors.

    Args:
        model: path of the ONNX file.
        target: what to compile for.
        options: of the step.
        budget: bytes for its tensors, `auto` for several plans, or None.
        progress: called with the name of each stage as it starts.
    """
    source = read_source(model, target, options, progress, is_tight=budget is not None)
    # It may be another file by the time that the step is built.
    digest = bundles.file_sha256(model)
    if options.get("allow_half_activations"):
        _check_half_activations(budget)
    made = build_step(source, budget, progress)
    built, graph, target = made.built, made.step.draft.graph, source.target
    if source.saves_half:
        graph.notes.append(_arithmetic(target, built.half_products, source.has_half))
    graph.notes += _said_of_form(made.form)
    if isinstance(budget, int):
        graph.notes.append(f"to fit {budget:,} bytes {built.steps[0].repeated}")
    elif budget == AUTO:
        graph.notes.append(_said_of(made))

    if built.winograd:
        graph.notes.append(_multiplied(built.winograd))
    graph.notes += _measured(built.tuned, options.get("database"))
    if built.lines.refused:
        graph.notes.append(f"there is no program for the native runtime: {built.lines.refused}")

    progress("link")
    root = private_folder()
    try:
        _write_model(source, graph, root)
        plans = memory_plans_json(step.record for step in built.steps)
        (root / bundles.MEMORY).write_text(plans, encoding="utf-8")
        manifest = _manifest(model.name, digest, made)
        identity = bundles.identity_in(manifest, root)
        program = _write_program(manifest, built.lines, identity, target, root)
        identity = bundles.build_id_of(identity, program)
        library = root / bundles.LIBRARY
        export_library(built.executable, library, target, identity, built.objects)
        check_library(library, target)
        return KeptStep(bundles.seal(manifest, root), tuple(graph.lost))
    except BaseException:
        remove_folder(root)
        raise


def _check_half_activations(budget: int | str | None) -> None:
    """Checks that there is one budget to keep within.

    Raises:
        UsageError: there is none, or there are several plans.
    """
    if budget is None:
        raise UsageError(
            "activations are stored as float16 only to keep within a budget, and there is none",
            where="allow_half_activations",
            hint="give a memory budget, such as 64MiB; --precision mixed needs none",
        )
    if budget == AUTO:
        raise UsageError(
            "the plans of auto give the same bits, and those with float16 would give others",
            where="allow_half_activations",
            hint="give a memory budget in bytes; --precision mixed goes with auto",
        )


def _said_of_form(form: KernelForm) -> list[str]:
    """What is said of kernels that are others than without a budget."""
    said = {HALF_ACTIVATIONS: form.half, DIRECT_CONVOLUTIONS: form.direct}
    return [note for note, is_so in said.items() if is_so]


def _said_of(made: BuiltPlans) -> str:
    """What is said of several plans."""
    arenas = [step.arena_bytes for step in made.built.steps]
    return (
        f"{len(arenas)} plans, from {arenas[0]:,} bytes to {arenas[-1]:,} in {made.times[-1]:.2f} "
        f"times the time, by a model of the target{made.measured}"
    )


def _arithmetic(target: Target, half_products: int, has_half: bool) -> str:
    """What is said of the arithmetic of a step in mixed precision."""
    if not has_half:
        return f"arithmetic is float32: {target.spec} has none for float16"
    return f"{half_products} kernels multiply float16 and add up float32; the loss is scaled"


def _multiplied(kernels: Sequence[str]) -> str:
    """What is said of convolutions with fewer products than taps."""
    return f"{_kernels(len(kernels))} in Winograd's form: {', '.join(kernels)}"


def _measured(tuned: Mapping[str, str], database: str | os.PathLike[str] | None) -> list[str]:
    """What is said of kernels whose loops were measured, and of the file of measurements."""
    said = []
    if database is not None and not Path(database).exists():
        said.append(f"there is no file of measurements {os.fspath(database)!r} yet")
    if tuned:
        counts = sorted(Counter(tuned.values()).items())
        sources = ", ".join(f"{count} on {source}" for source, count in counts)
        kernels = _kernels(len(tuned))
        said.append(f"{kernels} with the loops that were the fastest when measured: {sources}")
    return said


def _kernels(count: int) -> str:
    return f"{count} kernel" if count == 1 else f"{count} kernels"


def _write_model(source: Source, graph: Graph, root: Path) -> None:
    """The weights, and the graph without them."""
    # The native runtime reads weights that are not trained where they lie in the file.
    write_tensors(root / bundles.PARAMETERS, graph.parameters, alignment=TENSOR_ALIGNMENT)
    skeleton = strip_weights(source.model, graph.parameters)
    put_into(skeleton, source.arrays)
    (root / bundles.MODEL).write_bytes(skeleton.SerializeToString())


def _write_program(
    manifest: Manifest, lines: Lines, identity: str, target: Target, root: Path
) -> Path | None:
    """The step as data; None where it is none, as on a GPU, whose calls only TVM can make."""
    if target.threads is None or not lines.of:
        return None
    path = root / bundles.PROGRAM
    facts = {
        "features": " ".join(told_features(target.cpu)),
        # What a checkpoint says of the run that it is of.
        "run": json.dumps(step_identity(manifest), sort_keys=True),
    }
    program = program_of(manifest, lines.of, identity, target.threads, facts)
    path.write_bytes(program_bytes(program))
    return path


def _storage(built: Built) -> tuple[Argument, ...]:
    """The argument in which tensors wait, where some do."""
    size = built.stored_bytes
    return (Argument(Role.STORAGE, TensorSpec(STORAGE, (size,), "uint8")),) if size else ()


def _manifest(name: str, digest: str, made: BuiltPlans) -> Manifest:
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
        precision=source.options.get("precision", "float32"),
        micro_batches=step.draft.micro_batches,
        arguments=(*training.arguments, *_storage(built)),
        plans=tuple(
            StepPlan(each.function, each.arena_bytes, time)
            for each, time in zip(built.steps, made.times, strict=True)
        ),
        evaluations=training.evaluations,
        sizes=Sizes(
            parameters=step.nbytes_of(*WEIGHT_ROLES),
            optimizer=step.nbytes_of(Role.STATE, Role.AVERAGE),
            accumulators=step.accumulator_bytes,
            train_step=built.planned_bytes[TRAIN_STEP],
            evaluate=max(built.planned_bytes[item.function] for item in training.evaluations),
        ),
        notes=tuple(step.draft.graph.notes),
        adapters=step.draft.adapters,
        tuned=built.tuned,
        layouts=read_layout_plan(json.loads(built.layouts)) if built.layouts else None,
        bound=step.draft.graph.bound,
    )
