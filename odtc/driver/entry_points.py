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
        batch: samples in a step; may be left out where the model has a fixed batch.
        eval_batch: fewer samples than a step has that can be evaluated at once, too: a number or
            several. Each adds the kernels of another evaluation. A batch of any other size is
            filled up, which takes the time of a whole one.
        loss: on the first output: a loss such as `odtc.CrossEntropy()`, its text, or the path of an
            ONNX file that computes it. Or a loss for each output that is trained, by name; a pair
            gives it a weight: `{"logits": "mse", "aux": (0.3, "mse")}`, or as texts
            `["logits=mse", "aux=0.3*mse"]`.
        optimizer: the update rule, or its text such as `adamw{weight-decay=0.01}`, plain SGD by
            default; or an `Update` with what is around it. The learning rate is given at each step.
        train: what to train: globs over ONNX initializers and other choices, as text; see
            `odtc.frontend.trained.choices`. The others are frozen. By default all are trained, or
            with `lora` none beside the adapters.
        freeze: what not to train, whatever `train` selects.
        freeze_batch_norm: batch normalisations whose parameters are frozen use their running
            statistics and keep them, as PyTorch's in `eval()`.
        lora: low-rank adapters to train in place of weights, or their text, such as
            `rank=8,targets=*.query*`.
        quantize: how to store what is not trained: matrices that products and embeddings read are
            rounded to nearest, as `int4{block=32}`, with a scale and a zero point for each block of
            terms, or as `int8`, with a scale for each output channel, or `int8{block=N}`. Losses,
            `evaluate` and exports are those of the rounded weights.
        weights_beside: whether the artifact leaves weights in the model's files, where these hold
            them as the step reads them, and names the files: it is as much smaller, and a trainer
            needs them beside the artifact, or in the folder that `odtc.load` is given. Bytes that
            have changed are refused.
        shape: sizes of symbolic dimensions other than the batch, by name; or of all dimensions of
            an input, by its name: `{"x": (2, 3, 48, 192)}`.
        lengths: sizes, such as `(64, 128, 256)`, of the symbolic dimensions that neither the batch
            nor `shape` gives: numbers of tokens. The step is compiled for each, with weights and
            state once; a trainer takes each batch at the shortest that holds it, and fills it up.
        batch_axis: the axis along which the samples of a batch lie in an input or an output, by its
            name, where the model does not show it; None for one that holds none.
        set: values of inputs that are constants of the step, by name: numbers or lists. The
            exported model has these inputs as before.
        normalize: what is done to an image or a row in front of the model, as a part of it:
            `odtc.Normalize(mean, std)`, its text `mean=0.5,std=0.25`, `imagenet`, or the path of
            data to compute means and deviations from. Images are then fed as pixels: bytes from 0
            to 255.
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
        device: that the step will run on, by its URL, as of `Artifact.trainer`: what `odtc tune`
            measured there goes before what was measured on others of its family. By default it is
            this machine, for a target that is this machine.
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
    """Finds what memory budgets a step can meet, and how.

    Args:
        model: path of the ONNX file.
        target: name of a target, such as `host-cpu` or `android-cpu{mcpu=cortex-a76}`.
        count: of points, about, as far from each other in bytes, where all would be too many: of a
            deep network, most of the time goes into their arenas.
        progress: called with the name of each stage as it starts.
        batch: samples in a step; may be left out where the model has a fixed batch.
        eval_batch: fewer samples than a step has that can be evaluated at once, too: a number or
            several. Each adds the kernels of another evaluation. A batch of any other size is
            filled up, which takes the time of a whole one.
        loss: on the first output: a loss such as `odtc.CrossEntropy()`, its text, or the path of an
            ONNX file that computes it. Or a loss for each output that is trained, by name; a pair
            gives it a weight: `{"logits": "mse", "aux": (0.3, "mse")}`, or as texts
            `["logits=mse", "aux=0.3*mse"]`.
        optimizer: the update rule, or its text such as `adamw{weight-decay=0.01}`, plain SGD by
            default; or an `Update` with what is around it. The learning rate is given at each step.
        train: what to train: globs over ONNX initializers and other choices, as text; see
            `odtc.frontend.trained.choices`. The others are frozen. By default all are trained, or
            with `lora` none beside the adapters.
        freeze: what not to train, whatever `train` selects.
        freeze_batch_norm: batch normalisations whose parameters are frozen use their running
            statistics and keep them, as PyTorch's in `eval()`.
        lora: low-rank adapters to train in place of weights, or their text, such as
            `rank=8,targets=*.query*`.
        quantize: how to store what is not trained: matrices that products and embeddings read are
            rounded to nearest, as `int4{block=32}`, with a scale and a zero point for each block of
            terms, or as `int8`, with a scale for each output channel, or `int8{block=N}`. Losses,
            `evaluate` and exports are those of the rounded weights.
        weights_beside: whether the artifact leaves weights in the model's files, where these hold
            them as the step reads them, and names the files: it is as much smaller, and a trainer
            needs them beside the artifact, or in the folder that `odtc.load` is given. Bytes that
            have changed are refused.
        shape: sizes of symbolic dimensions other than the batch, by name; or of all dimensions of
            an input, by its name: `{"x": (2, 3, 48, 192)}`.
        lengths: sizes, such as `(64, 128, 256)`, of the symbolic dimensions that neither the batch
            nor `shape` gives: numbers of tokens. The step is compiled for each, with weights and
            state once; a trainer takes each batch at the shortest that holds it, and fills it up.
        batch_axis: the axis along which the samples of a batch lie in an input or an output, by its
            name, where the model does not show it; None for one that holds none.
        set: values of inputs that are constants of the step, by name: numbers or lists. The
            exported model has these inputs as before.
        normalize: what is done to an image or a row in front of the model, as a part of it:
            `odtc.Normalize(mean, std)`, its text `mean=0.5,std=0.25`, `imagenet`, or the path of
            data to compute means and deviations from. Images are then fed as pixels: bytes from 0
            to 255.
        precision: `float32`, or `mixed`: what the backward pass reads of the forward pass is stored
            as float16, and where the CPU, or the GPU that the target names, has float16 arithmetic,
            large products multiply it. Such products need a loss scale: it is `dynamic` unless the
            update has one. Weights, gradients, sums and all other arithmetic stay float32.
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
        device: that the step will run on, by its URL, as of `Artifact.trainer`: what `odtc tune`
            measured there goes before what was measured on others of its family. By default it is
            this machine, for a target that is this machine.
        layout: of images in a training step on a CPU: `native` for that of ONNX; `cheapest` for
            those in which the step is fastest by a model of the target, with the copies in between;
            `auto` for these if the model promises more than it is wrong by; or the path of a plan,
            as `odtc inspect --layouts` prints it.

    Returns:
        The budgets, with the time that each costs.

    Raises:
        OdtcError: as of `odtc.compile`.
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
