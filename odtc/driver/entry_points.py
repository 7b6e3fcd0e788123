"""`odtc.compile` and `odtc.plan`, as their users call them.

Here text becomes what the driver takes: a `Target`, `StepOptions`, a budget in bytes.
`python -m tests.reference_pages` writes this file, from the table of options in
`odtc/driver/options/step_options.py`.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from odtc.artifact import Artifact
from odtc.autoschedule.tuning.record import Device
from odtc.backends.targets import Target, as_target
from odtc.core.options.arguments import takes
from odtc.core.options.byte_sizes import parse_budget
from odtc.core.options.kinds import ANYTHING, FUNCTION, optional, whole_from
from odtc.core.process.progress import Progress, silent
from odtc.driver.compilation import compile_step
from odtc.driver.frontier import Frontier
from odtc.driver.options.kinds import MODEL, TARGET
from odtc.driver.options.on_device import on_device
from odtc.driver.options.option import kinds_of
from odtc.driver.options.step_options import OLD_NAMES, StepOptions
from odtc.frontend.feeds import Axes, Shapes
from odtc.frontend.inputs.normalization import Normalize
from odtc.frontend.losses.terms import Losses, Term
from odtc.frontend.optimizers.optimizer import Optimizer
from odtc.frontend.optimizers.update import Update
from odtc.frontend.trained.lora import LoRA


@takes(
    "odtc.compile",
    "",
    OLD_NAMES,
    **kinds_of(StepOptions),
    model=MODEL,
    target=TARGET,
    memory_budget=ANYTHING,  # `parse_budget` reads it
    progress=FUNCTION,
)
def compile_model(  # noqa: PLR0913 - one keyword for each choice of the user
    model: str | os.PathLike[str],
    target: str | Target = "host-cpu",
    *,
    batch: int | None = None,
    eval_batch: Sequence[int] | int = (),
    loss: Losses | Sequence[Term | str] = "cross-entropy",
    optimizer: Optimizer | Update | str | None = None,
    train: Sequence[str] | str | None = None,
    freeze: Sequence[str] | str = (),
    freeze_batch_norm: bool = False,
    lora: LoRA | str | None = None,
    quantize: str | None = None,
    weights_beside: bool = False,
    shape: Shapes | None = None,
    lengths: Sequence[int] | int = (),
    batch_axis: Axes | None = None,
    set: Mapping[str, Any] | None = None,
    normalize: Normalize | str | os.PathLike[str] | None = None,
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
    device: Device | str | None = None,
    layout: str = "native",
    progress: Progress = silent,
) -> Artifact:
    """Compiles an ONNX inference model into a training step.

    Args:
        model: path of the ONNX file.
        target: name of a target, such as `host-cpu` or `android-cpu{mcpu=cortex-a76}`.
        batch: samples per step; may be omitted if the model has a fixed batch.
        eval_batch: one or more batch sizes below that of the step at which the model can be
            evaluated, too. Each adds the kernels of another evaluation. A batch of any other size
            is padded, which takes the time of a whole one.
        loss: loss on the first output: an object such as `odtc.CrossEntropy()`, its text, or the
            path of an ONNX file that computes it. Or a loss for each output that is trained, by
            name; a pair gives it a weight: `{"logits": "mse", "aux": (0.3, "mse")}`, or as text
            `["logits=mse", "aux=0.3*mse"]`.
        optimizer: optimizer, or its text such as `adamw{weight-decay=0.01}`; or an `Update`, which
            adds options such as clipping. Plain SGD by default. The learning rate is given at each
            step.
        train: parameters to train: globs over ONNX initializer names and other choices, as text;
            see `odtc.frontend.trained.choices`. All others are frozen. By default all are trained,
            or with `lora` only the adapters.
        freeze: parameters not to train, even if `train` selects them.
        freeze_batch_norm: whether batch normalisations whose parameters are frozen use their
            running statistics and do not update them, like PyTorch's in `eval()`.
        lora: low-rank adapters to train in place of weights, or their text, such as
            `rank=8,targets=*.query*`.
        quantize: format in which to store frozen matrices of matrix products and embeddings,
            rounded to nearest: `int4{block=32}`, with a scale and a zero point for each block of
            elements, `int8`, with a scale for each output channel, or `int8{block=N}`. Losses,
            `evaluate` and exports use the rounded weights.
        weights_beside: whether the artifact refers to weights in the model's files, if these hold
            them as the step reads them, instead of copying them. It is smaller, and a trainer needs
            the files next to the artifact, or in the folder given to `odtc.load`. Weights that have
            changed are refused.
        shape: sizes of symbolic dimensions other than the batch, by name; or of all dimensions of
            an input, by the name of the input: `{"x": (2, 3, 48, 192)}`.
        lengths: sizes, such as `(64, 128, 256)` tokens, of the symbolic dimensions that neither the
            batch nor `shape` sets. The step is compiled for each of them, and they share weights
            and state; a trainer runs each batch at the shortest length that holds it, and pads it.
        batch_axis: batch axis of an input or output, by its name, if it cannot be told from the
            model; None for one without a batch.
        set: values of inputs that become constants of the step, by name: numbers or lists. The
            exported model still has these inputs.
        normalize: normalisation of an image or a row that becomes a part of the model:
            `odtc.Normalize(mean, std)`, its text `mean=0.5,std=0.25`, `imagenet`, or the path of
            data to compute means and standard deviations from. Images are then fed as pixels: bytes
            from 0 to 255.
        precision: `float32`, or `mixed`: activations saved for the backward pass are stored as
            float16, and if the CPU, or the GPU that the target names, has float16 arithmetic, large
            matrix products and convolutions take float16 operands. These need a loss scale: it is
            `dynamic` unless the update has one. Weights, gradients, sums and all other arithmetic
            stay float32.
        memory_budget: bytes that the tensors of a step may take in addition to parameters and
            optimizer state, such as `64MiB`. To fit, the step recomputes some tensors or runs as
            micro-batches, whichever is faster; the buffers that accumulate gradients count towards
            the budget. With `auto` the artifact holds several plans, from the fastest to the
            smallest, between which `Trainer.set_budget` and `Trainer.follow_memory` switch; they
            differ in what is recomputed, and give the same bits.
        micro_batches: number of equal parts that the batch of a step is split into, 1 for no split;
            a divisor of the batch. By default as many as the budget needs.
        allow_split_batchnorm: whether batch normalisations may use the statistics of a micro-batch
            instead of those of the batch, which changes what they compute.
        allow_half_activations: whether activations saved for the backward pass may be stored as
            float16, if that is the fastest way to meet the budget. Everything is computed in
            float32, and the loss is exact; gradients are computed from the stored values, each of
            which is rounded by at most 1 part in 2,048.
        offload: whether tensors of a step with a budget may be moved to a file on the device, if
            the bandwidths of the target's storage make that faster than recomputing them. The
            values are the same. The file has no name, and is gone when the trainer is closed.
        dropout: whether training steps apply the model's Dropout; evaluation never does.
        seed: seed of the dropout masks, below 2**63. Together with the number of the step it
            decides which elements are dropped.
        tuned: whether matrix products and convolutions that were measured on the target's kind of
            device use the loops that were fastest there; see `odtc tune`. Loops of all others are
            chosen by a cost model of the target.
        database: file with measurements of `odtc tune`, in addition to those that ship with odtc;
            by default the user's own.
        device: URL of the device that the step will run on, as in `Artifact.trainer`: measurements
            of `odtc tune` on this device take precedence over those on others of its family. By
            default this machine, if the target is this machine.
        layout: layout of images in a training step on a CPU: `native` for ONNX's; `cheapest` for
            the layouts with which the step, including copies between them, is fastest by a cost
            model of the target; `auto` for the same, if the predicted gain exceeds the model's
            error; or the path of a plan, as `odtc inspect --layouts` prints it.
        progress: called with the name of each stage as it starts.

    Returns:
        The artifact, unsaved.

    Raises:
        OdtcError: the model, an option or the machine does not allow it; see `odtc.core.errors`.
    """
    options = StepOptions(
        batch=batch,
        eval_batch=eval_batch,
        loss=loss,
        optimizer=optimizer,
        train=train,
        freeze=freeze,
        freeze_batch_norm=freeze_batch_norm,
        lora=lora,
        quantize=quantize,
        weights_beside=weights_beside,
        shape=shape,
        lengths=lengths,
        batch_axis=batch_axis,
        set=set,
        normalize=normalize,
        precision=precision,
        micro_batches=micro_batches,
        allow_split_batchnorm=allow_split_batchnorm,
        allow_half_activations=allow_half_activations,
        offload=offload,
        dropout=dropout,
        seed=seed,
        tuned=tuned,
        database=database,
        device=device,
        layout=layout,
    )
    options = on_device(options, as_target(target))
    budget = parse_budget(memory_budget, "memory_budget")
    return compile_step(Path(model), as_target(target), options, budget, progress)


@takes(
    "odtc.plan",
    "",
    OLD_NAMES,
    **kinds_of(StepOptions),
    model=MODEL,
    target=TARGET,
    count=optional(whole_from(1)),
    progress=FUNCTION,
)
def plan_model(  # noqa: PLR0913 - one keyword for each choice of the user
    model: str | os.PathLike[str],
    target: str | Target = "host-cpu",
    *,
    count: int | None = None,
    progress: Progress = silent,
    batch: int | None = None,
    eval_batch: Sequence[int] | int = (),
    loss: Losses | Sequence[Term | str] = "cross-entropy",
    optimizer: Optimizer | Update | str | None = None,
    train: Sequence[str] | str | None = None,
    freeze: Sequence[str] | str = (),
    freeze_batch_norm: bool = False,
    lora: LoRA | str | None = None,
    quantize: str | None = None,
    weights_beside: bool = False,
    shape: Shapes | None = None,
    lengths: Sequence[int] | int = (),
    batch_axis: Axes | None = None,
    set: Mapping[str, Any] | None = None,
    normalize: Normalize | str | os.PathLike[str] | None = None,
    precision: str = "float32",
    micro_batches: int | None = None,
    allow_split_batchnorm: bool = False,
    allow_half_activations: bool = False,
    offload: bool = False,
    dropout: bool = True,
    seed: int = 0,
    tuned: bool = True,
    database: str | os.PathLike[str] | None = None,
    device: Device | str | None = None,
    layout: str = "native",
) -> Frontier:
    """Finds which memory budgets a step can meet, and how.

    Args:
        model: path of the ONNX file.
        target: name of a target, such as `host-cpu` or `android-cpu{mcpu=cortex-a76}`.
        count: approximate number of points, evenly spaced in bytes, for networks that have too
            many: for a deep one, most of the time is spent on their arenas. By default all points.
        progress: called with the name of each stage as it starts.
        batch: samples per step; may be omitted if the model has a fixed batch.
        eval_batch: one or more batch sizes below that of the step at which the model can be
            evaluated, too. Each adds the kernels of another evaluation. A batch of any other size
            is padded, which takes the time of a whole one.
        loss: loss on the first output: an object such as `odtc.CrossEntropy()`, its text, or the
            path of an ONNX file that computes it. Or a loss for each output that is trained, by
            name; a pair gives it a weight: `{"logits": "mse", "aux": (0.3, "mse")}`, or as text
            `["logits=mse", "aux=0.3*mse"]`.
        optimizer: optimizer, or its text such as `adamw{weight-decay=0.01}`; or an `Update`, which
            adds options such as clipping. Plain SGD by default. The learning rate is given at each
            step.
        train: parameters to train: globs over ONNX initializer names and other choices, as text;
            see `odtc.frontend.trained.choices`. All others are frozen. By default all are trained,
            or with `lora` only the adapters.
        freeze: parameters not to train, even if `train` selects them.
        freeze_batch_norm: whether batch normalisations whose parameters are frozen use their
            running statistics and do not update them, like PyTorch's in `eval()`.
        lora: low-rank adapters to train in place of weights, or their text, such as
            `rank=8,targets=*.query*`.
        quantize: format in which to store frozen matrices of matrix products and embeddings,
            rounded to nearest: `int4{block=32}`, with a scale and a zero point for each block of
            elements, `int8`, with a scale for each output channel, or `int8{block=N}`. Losses,
            `evaluate` and exports use the rounded weights.
        weights_beside: whether the artifact refers to weights in the model's files, if these hold
            them as the step reads them, instead of copying them. It is smaller, and a trainer needs
            the files next to the artifact, or in the folder given to `odtc.load`. Weights that have
            changed are refused.
        shape: sizes of symbolic dimensions other than the batch, by name; or of all dimensions of
            an input, by the name of the input: `{"x": (2, 3, 48, 192)}`.
        lengths: sizes, such as `(64, 128, 256)` tokens, of the symbolic dimensions that neither the
            batch nor `shape` sets. The step is compiled for each of them, and they share weights
            and state; a trainer runs each batch at the shortest length that holds it, and pads it.
        batch_axis: batch axis of an input or output, by its name, if it cannot be told from the
            model; None for one without a batch.
        set: values of inputs that become constants of the step, by name: numbers or lists. The
            exported model still has these inputs.
        normalize: normalisation of an image or a row that becomes a part of the model:
            `odtc.Normalize(mean, std)`, its text `mean=0.5,std=0.25`, `imagenet`, or the path of
            data to compute means and standard deviations from. Images are then fed as pixels: bytes
            from 0 to 255.
        precision: `float32`, or `mixed`: activations saved for the backward pass are stored as
            float16, and if the CPU, or the GPU that the target names, has float16 arithmetic, large
            matrix products and convolutions take float16 operands. These need a loss scale: it is
            `dynamic` unless the update has one. Weights, gradients, sums and all other arithmetic
            stay float32.
        micro_batches: number of equal parts that the batch of a step is split into, 1 for no split;
            a divisor of the batch. By default as many as the budget needs.
        allow_split_batchnorm: whether batch normalisations may use the statistics of a micro-batch
            instead of those of the batch, which changes what they compute.
        allow_half_activations: whether activations saved for the backward pass may be stored as
            float16, if that is the fastest way to meet the budget. Everything is computed in
            float32, and the loss is exact; gradients are computed from the stored values, each of
            which is rounded by at most 1 part in 2,048.
        offload: whether tensors of a step with a budget may be moved to a file on the device, if
            the bandwidths of the target's storage make that faster than recomputing them. The
            values are the same. The file has no name, and is gone when the trainer is closed.
        dropout: whether training steps apply the model's Dropout; evaluation never does.
        seed: seed of the dropout masks, below 2**63. Together with the number of the step it
            decides which elements are dropped.
        tuned: whether matrix products and convolutions that were measured on the target's kind of
            device use the loops that were fastest there; see `odtc tune`. Loops of all others are
            chosen by a cost model of the target.
        database: file with measurements of `odtc tune`, in addition to those that ship with odtc;
            by default the user's own.
        device: URL of the device that the step will run on, as in `Artifact.trainer`: measurements
            of `odtc tune` on this device take precedence over those on others of its family. By
            default this machine, if the target is this machine.
        layout: layout of images in a training step on a CPU: `native` for ONNX's; `cheapest` for
            the layouts with which the step, including copies between them, is fastest by a cost
            model of the target; `auto` for the same, if the predicted gain exceeds the model's
            error; or the path of a plan, as `odtc inspect --layouts` prints it.

    Returns:
        The budgets, with the time that each costs.

    Raises:
        OdtcError: as for `odtc.compile`.
    """
    # It brings TVM.
    from odtc.driver.planning import find_frontier

    options = StepOptions(
        batch=batch,
        eval_batch=eval_batch,
        loss=loss,
        optimizer=optimizer,
        train=train,
        freeze=freeze,
        freeze_batch_norm=freeze_batch_norm,
        lora=lora,
        quantize=quantize,
        weights_beside=weights_beside,
        shape=shape,
        lengths=lengths,
        batch_axis=batch_axis,
        set=set,
        normalize=normalize,
        precision=precision,
        micro_batches=micro_batches,
        allow_split_batchnorm=allow_split_batchnorm,
        allow_half_activations=allow_half_activations,
        offload=offload,
        dropout=dropout,
        seed=seed,
        tuned=tuned,
        database=database,
        device=device,
        layout=layout,
    )
    options = on_device(options, as_target(target))
    return find_frontier(model, as_target(target), options, count, progress)
