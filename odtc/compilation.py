"""`compile_model`: the one path from an ONNX file to an artifact.

read -> decide on micro-batches and recomputation -> lower and build -> link -> seal
"""

import dataclasses
import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import onnx

import odtc
from odtc.artifact import Artifact
from odtc.autoschedule.tuning.record import Device
from odtc.backends.built import Built
from odtc.backends.elf import check_library
from odtc.backends.library import export_library
from odtc.backends.targets import Target
from odtc.core import bundle as bundles
from odtc.core.arguments import takes
from odtc.core.byte_sizes import AUTO, parse_bytes
from odtc.core.caller_warning import warn_caller
from odtc.core.errors import UsageError
from odtc.core.files import private_folder
from odtc.core.kinds import ANYTHING, FUNCTION
from odtc.core.layout_plan import read_layout_plan
from odtc.core.left_behind import remove_folder
from odtc.core.manifest import Manifest, Sizes, StepPlan
from odtc.core.memory_plan import memory_plans_json
from odtc.core.progress import Progress, silent
from odtc.core.specs import STORAGE, WEIGHT_ROLES, Argument, Role, TensorSpec
from odtc.core.tensor_file import write_tensors
from odtc.core.weights import strip_weights
from odtc.fitting import BuiltPlans, build_step
from odtc.frontend.feeds import Axes, Shapes
from odtc.frontend.graph import Graph
from odtc.frontend.lora import LoRA
from odtc.frontend.losses.terms import Losses, Term, terms_text
from odtc.frontend.optimizers.optimizer import Optimizer
from odtc.frontend.optimizers.update import Update
from odtc.frontend.training import TRAIN_STEP
from odtc.layouts import DEFAULT
from odtc.passes.checkpoint.cuts import Form
from odtc.preparation import StepOptions, read_source
from odtc.step_arguments import MODEL_AND_TARGET, STEP

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


@takes(
    "odtc.compile",
    **MODEL_AND_TARGET,
    **STEP,
    memory_budget=ANYTHING,  # `parse_bytes` reads it
    progress=FUNCTION,
)
def compile_model(  # noqa: PLR0913 - one keyword for each choice of the user
    model: str | os.PathLike[str],
    target: str | Target = "host-cpu",
    *,
    batch: int | None = None,
    loss: Losses | Sequence[Term | str] = "cross-entropy",
    optimizer: Optimizer | Update | str | None = None,
    params: Sequence[str] | str | None = None,
    freeze: Sequence[str] | str = (),
    freeze_batch_norm: bool = False,
    lora: LoRA | str | None = None,
    shape: Shapes | None = None,
    batch_axes: Axes | None = None,
    set_inputs: Mapping[str, Any] | None = None,
    precision: str = "float32",
    memory_budget: int | str | None = None,
    micro_batches: int | None = None,
    allow_split_batchnorm: bool = False,
    allow_half_activations: bool = False,
    offload: bool = False,
    dropout: bool = True,
    seed: int = 0,
    tuned: bool = True,
    database: str | os.PathLike[str] | None = None,
    device: Device | None = None,
    layout: str = DEFAULT,
    progress: Progress = silent,
) -> Artifact:
    """Compiles an ONNX inference model into a training step.

    Args:
        model: path of the ONNX file.
        target: name of a target, such as `host-cpu` or `android-cpu{mcpu=cortex-a55}`.
        batch: samples in a step; may be left out where the model has a fixed batch.
        loss: on the first output: a loss such as `odtc.CrossEntropy()`, its text, or the path of an
            ONNX file that computes it. Or a loss for each output that is trained, by name; a pair
            gives it a weight: `{"logits": "mse", "aux": (0.3, "mse")}`, or as texts
            `["logits=mse", "aux=0.3*mse"]`.
        optimizer: the update rule, or its text such as `adamw{weight-decay=0.01}`, plain SGD by
            default; or an `Update` with what is around it. The learning rate is given at each step.
        params: what to train: globs over ONNX initializers and other choices, as text; see
            `odtc.frontend.choices`. The others are frozen. By default all are trained, or with
            `lora` none beside the adapters.
        freeze: what not to train, whatever `params` selects.
        freeze_batch_norm: batch normalisations whose parameters are frozen use their running
            statistics and keep them, as PyTorch's in `eval()`.
        lora: low-rank adapters to train in place of weights, or their text, such as
            `rank=8,targets=*.query*`.
        shape: sizes of symbolic dimensions other than the batch, by name; or of all dimensions of
            an input, by its name: `{"x": (2, 3, 48, 192)}`.
        batch_axes: the axis along which the samples of a batch lie in an input or an output, by its
            name, where the model does not show it; None for one that holds none.
        set_inputs: values of inputs that are constants of the step, by name: numbers or lists. The
            exported model has these inputs as before.
        precision: `float32`, or `mixed`: what the backward pass reads of the forward pass is stored
            as float16, and where the CPU, or the GPU that the target names, has float16 arithmetic,
            large products multiply it. Such products need a loss scale: it is `dynamic` unless the
            update has one. Weights, gradients, sums and all other arithmetic stay float32.
        memory_budget: bytes that the tensors of a step may take beside parameters and optimizer
            state, such as `64MiB`. Some calls run again then, rather than keep what they made, or
            the step runs as micro-batches, whichever is faster; what their gradients are added up
            in is within the budget. With `auto` the artifact holds several plans, from the fastest
            to the smallest, between which `Trainer.set_budget` and `Trainer.follow_memory` change;
            they differ in which calls run again, and give the same bits.
        micro_batches: how many of them make a step, 1 for none. They divide the batch. By default
            there are as many as the budget needs.
        allow_split_batchnorm: whether batch normalisations may take the statistics of a micro-batch
            in place of those of the batch, which changes what they compute.
        allow_half_activations: whether what the backward pass reads of the forward pass may be
            stored as float16, where that is the fastest way within the budget. All is computed in
            float32, and the loss is exact; gradients are as good as what is stored: each value is
            rounded by at most 1 part in 2,048.
        offload: whether tensors of a step with a budget may wait in a file on the device, where
            that is faster than to compute them again, by the bandwidths of the target's storage.
            The values are the same. Such a file has no name, and ends with the trainer.
        dropout: whether training steps drop elements where the model has Dropout; evaluation never
            does.
        seed: of the masks of dropout, below 2**63. With the number of the step it says which
            elements are dropped.
        tuned: whether products that were measured on such a device get the loops that were the
            fastest there; see `odtc tune`. All others follow a model of the target.
        database: the file of such measurements, beside those that ship with odtc; the user's own
            one by default.
        device: that the step will run on, as `odtc.tuning.device_at` gives it: what was measured
            there goes before what was measured on others of its family. By default it is this
            machine, for a target that is this machine.
        layout: of images in a training step on a CPU: `native` for that of ONNX; `cheapest` for
            those in which the step is fastest by a model of the target, with the copies in between;
            `auto` for these if the model promises more than it is wrong by; or the path of a plan,
            as `odtc inspect --layouts` prints it.
        progress: called with the name of each stage as it starts.

    Returns:
        The artifact, unsaved.

    Raises:
        OdtcError: the model, an option or the machine does not allow it; see `odtc.core.errors`.
    """
    budget = None if memory_budget is None else _budget(memory_budget)
    options = StepOptions(
        batch=batch,
        loss=loss,
        optimizer=optimizer,
        params=params,
        freeze=freeze,
        freeze_batch_norm=freeze_batch_norm,
        lora=lora,
        shape=shape,
        batch_axes=batch_axes,
        set_inputs=set_inputs,
        precision=precision,
        dropout=dropout,
        seed=seed,
        micro_batches=micro_batches,
        allow_split_batchnorm=allow_split_batchnorm,
        allow_half_activations=allow_half_activations,
        offload=offload,
        tuned=tuned,
        database=database,
        device=device,
        layout=layout,
    )
    if offload and budget is None:
        raise UsageError(
            "tensors wait in storage only to keep within a budget, and there is none",
            where="offload",
            hint="give a memory budget, such as 64MiB or auto",
        )
    source = read_source(model, target, options, progress, is_tight=budget is not None)
    if allow_half_activations:
        _check_half_activations(budget)
    made = build_step(source, budget, progress)
    built, graph, target = made.built, made.step.draft.graph, source.target
    for note in graph.lost:
        warn_caller(f"compile: {note}")
    if source.saves_half:
        graph.notes.append(_arithmetic(target, built.half_products, source.has_half))
    graph.notes += _said_of_form(made.form)
    if isinstance(budget, int):
        graph.notes.append(f"to fit {budget:,} bytes {built.steps[0].repeated}")
    elif budget == AUTO:
        graph.notes.append(_said_of(made))

    if built.winograd:
        graph.notes.append(_multiplied(built.winograd))
    graph.notes += _measured(built.tuned, database)

    progress("link")
    root = private_folder()
    try:
        _write_model(source.model, graph, root)
        plans = memory_plans_json(step.record for step in built.steps)
        (root / bundles.MEMORY).write_text(plans, encoding="utf-8")
        manifest = _manifest(Path(model), made, precision)
        identity = bundles.identity_in(manifest, root)
        library = root / bundles.LIBRARY
        export_library(built.executable, library, target, identity, built.objects)
        check_library(library, target)
        return Artifact(bundles.seal(manifest, root))
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


def _budget(memory_budget: int | str) -> int | str:
    if memory_budget == AUTO:
        return AUTO
    return parse_bytes(memory_budget, "memory_budget")


def _said_of_form(form: Form) -> list[str]:
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


def _write_model(model: onnx.ModelProto, graph: Graph, root: Path) -> None:
    """The weights, and the graph without them."""
    write_tensors(root / bundles.PARAMETERS, graph.parameters)
    skeleton = strip_weights(model, graph.parameters)
    (root / bundles.MODEL).write_bytes(skeleton.SerializeToString())


def _storage(built: Built) -> tuple[Argument, ...]:
    """The argument in which tensors wait, where some do."""
    size = built.stored_bytes
    return (Argument(Role.STORAGE, TensorSpec(STORAGE, (size,), "uint8")),) if size else ()


def _manifest(path: Path, made: BuiltPlans, precision: str) -> Manifest:
    step, built = made.step, made.built
    source, training, update = step.source, step.training, step.source.update
    return Manifest(
        odtc=odtc.__version__,
        tvm=version("apache-tvm"),
        target=source.target.spec,
        triple=source.target.triple,
        model=path.name,
        model_sha256=bundles.file_sha256(path),
        loss=terms_text(source.terms),
        optimizer={"name": update.rule.name, **dataclasses.asdict(update.rule)},
        update=update.options(),
        precision=precision,
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
