"""`StepOptions`: what a user may choose of a step, beside the model and the target.

Each option is said once, here: its type, default and kind, what it does, and its flag. From these
follow `odtc.compile` and `odtc.plan` (`odtc/driver/entry_points.py`), the flags of `odtc compile`,
`plan`, `check` and `tune`, the step cache's key, and the reference pages.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from odtc.core.options.kinds import ANYTHING, FLAG, PATH, WHOLE, optional
from odtc.core.options.option_text import LORA_FORM
from odtc.driver.layouts import DEFAULT
from odtc.driver.options import kinds
from odtc.driver.options.option import Flag, Form, option

# The command line answers `--help` without what these import.
if TYPE_CHECKING:
    from odtc.autoschedule.tuning.record import Device
    from odtc.frontend.feeds import Axes, Shapes
    from odtc.frontend.inputs.normalization import Normalize
    from odtc.frontend.losses.terms import Losses, Term
    from odtc.frontend.optimizers.optimizer import Optimizer
    from odtc.frontend.optimizers.update import Update
    from odtc.frontend.trained.lora import LoRA

# What options were called in Python before they had the names of their flags.
OLD_NAMES = {"params": "train", "batch_axes": "batch_axis", "set_inputs": "set"}


@dataclass(frozen=True, kw_only=True)
class StepOptions:
    """The options of a step; the docs of each field are those of `odtc.compile`'s argument."""

    batch: int | None = option(
        None,
        kinds.SAMPLES,
        "samples in a step; may be left out where the model has a fixed batch.",
        Flag("--batch", Form.WHOLE, "samples per step", "N"),
    )
    eval_batch: Sequence[int] | int = option(
        (),
        kinds.EVALUATED,
        "fewer samples than a step has that can be evaluated at once, too: a number or several. "
        "Each adds the kernels of another evaluation. A batch of any other size is filled up, "
        "which takes the time of a whole one.",
        Flag(
            "--eval-batch",
            Form.COUNTS,
            "smaller batch sizes at which the model can be evaluated without padding; each adds "
            "kernels",
            "N",
        ),
    )
    loss: Losses | Sequence[Term | str] = option(
        "cross-entropy",
        ANYTHING,  # `terms_of` reads it
        "on the first output: a loss such as `odtc.CrossEntropy()`, its text, or the path of an "
        "ONNX file that computes it. Or a loss for each output that is trained, by name; a pair "
        'gives it a weight: `{"logits": "mse", "aux": (0.3, "mse")}`, or as texts '
        '`["logits=mse", "aux=0.3*mse"]`.',
        Flag(
            "--loss",
            Form.LOSSES,
            "a loss, an ONNX file that computes one, or in-model if the output is the loss; for "
            "several outputs, OUTPUT=[WEIGHT*]LOSS for each (default: cross-entropy)",
            "L",
        ),
    )
    # Its flags are those of `odtc/cli/compiling/update_options.py`.
    optimizer: Optimizer | Update | str | None = option(
        None,
        ANYTHING,  # `as_update` reads it
        "the update rule, or its text such as `adamw{weight-decay=0.01}`, plain SGD by default; or "
        "an `Update` with what is around it. The learning rate is given at each step.",
    )
    train: Sequence[str] | str | None = option(
        None,
        optional(kinds.CHOICES),
        "what to train: globs over ONNX initializers and other choices, as text; see "
        "`odtc.frontend.trained.choices`. The others are frozen. By default all are trained, or "
        "with `lora` none beside the adapters.",
        Flag(
            "--train",
            Form.TEXTS,
            "parameters to train: globs over ONNX initializer names, bias, last{k=2} or "
            "sparse{layers=GLOB,channels=0.25}; all others are frozen (default: *, or with "
            "--lora only the adapters)",
            "WHAT",
        ),
    )
    freeze: Sequence[str] | str = option(
        (),
        kinds.CHOICES,
        "what not to train, whatever `train` selects.",
        Flag(
            "--freeze", Form.TEXTS, "parameters not to train, even if --train selects them", "WHAT"
        ),
    )
    freeze_batch_norm: bool = option(
        False,
        FLAG,
        "batch normalisations whose parameters are frozen use their running statistics and keep "
        "them, as PyTorch's in `eval()`.",
        Flag(
            "--freeze-batch-norm",
            Form.SWITCH,
            "use the running statistics of batch normalisations whose parameters are frozen, and "
            "do not update them",
        ),
    )
    lora: LoRA | str | None = option(
        None,
        kinds.ADAPTERS,
        "low-rank adapters to train in place of weights, or their text, such as "
        "`rank=8,targets=*.query*`.",
        Flag("--lora", Form.ADAPTERS, f"train low-rank adapters, such as {LORA_FORM}", "OPTIONS"),
    )
    quantize: str | None = option(
        None,
        kinds.QUANTIZATION,
        "how to store what is not trained: matrices that products and embeddings read "
        "are rounded to nearest, as `int4{block=32}`, with a scale and a zero point for each block "
        "of terms, or as `int8`, with a scale for each output channel, or `int8{block=N}`. Losses, "
        "`evaluate` and exports are those of the rounded weights.",
        Flag(
            "--quantize",
            Form.TEXT,
            "store frozen matrices as int4{block=32}, int8 or int8{block=N}, rounded to nearest",
            "FORMAT",
        ),
    )
    weights_beside: bool = option(
        False,
        FLAG,
        "whether the artifact leaves weights in the model's files, where these hold them as the "
        "step reads them, and names the files: it is as much smaller, and a trainer needs them "
        "beside the artifact, or in the folder that `odtc.load` is given. Bytes that have changed "
        "are refused.",
        Flag(
            "--weights-beside",
            Form.SWITCH,
            "leave weights in the model's files rather than copy them into the artifact; a "
            "trainer then needs these files, next to the artifact or in --weights-folder",
        ),
    )
    shape: Shapes | None = option(
        None,
        kinds.SHAPES,
        "sizes of symbolic dimensions other than the batch, by name; or of all dimensions of an "
        'input, by its name: `{"x": (2, 3, 48, 192)}`.',
        Flag(
            "--shape",
            Form.SIZES,
            "sizes of symbolic dimensions other than the batch, or INPUT=2x3x48x192 for all "
            "dimensions of an input",
            "NAME=N",
        ),
    )
    lengths: Sequence[int] | int = option(
        (),
        kinds.LENGTHS,
        "sizes, such as `(64, 128, 256)`, of the symbolic dimensions that neither the batch nor "
        "`shape` gives: numbers of tokens. The step is compiled for each, with weights and state "
        "once; a trainer takes each batch at the shortest that holds it, and fills it up.",
        Flag(
            "--lengths",
            Form.COUNTS,
            "compile the step for several sizes of the symbolic dimensions that neither the "
            "batch nor --shape sets, such as 64 128 256 tokens; each batch runs at the shortest "
            "length that holds it",
            "N",
        ),
    )
    batch_axis: Axes | None = option(
        None,
        kinds.AXES,
        "the axis along which the samples of a batch lie in an input or an output, by its name, "
        "where the model does not show it; None for one that holds none.",
        Flag(
            "--batch-axis",
            Form.AXES,
            "batch axis of an input or output, if it cannot be told from the model; none if it "
            "has no batch",
            "NAME=AXIS",
        ),
    )
    set: Mapping[str, Any] | None = option(
        None,
        kinds.VALUES,
        "values of inputs that are constants of the step, by name: numbers or lists. The exported "
        "model has these inputs as before.",
        Flag(
            "--set",
            Form.VALUES,
            "constant value for an input, which is then not fed: a number, or several separated "
            "by commas, such as sr=16000",
            "INPUT=VALUE",
        ),
    )
    normalize: Normalize | str | os.PathLike[str] | None = option(
        None,
        kinds.NORMALIZATION,
        "what is done to an image or a row in front of the model, as a part of it: "
        "`odtc.Normalize(mean, std)`, its text `mean=0.5,std=0.25`, `imagenet`, or the path of "
        "data to compute means and deviations from. Images are then fed as pixels: bytes from 0 "
        "to 255.",
        Flag(
            "--normalize",
            Form.NORMALIZATION,
            "normalise images or table rows inside the model, which then takes images as pixels "
            "(uint8): imagenet, mean=0.485:0.456:0.406,std=0.229:0.224:0.225, or data to compute "
            "mean and std from",
            "HOW",
        ),
    )
    precision: str = option(
        "float32",
        kinds.PRECISION,
        "`float32`, or `mixed`: what the backward pass reads of the forward pass is stored as "
        "float16, and where the CPU, or the GPU that the target names, has float16 arithmetic, "
        "large products multiply it. Such products need a loss scale: it is `dynamic` unless the "
        "update has one. Weights, gradients, sums and all other arithmetic stay float32.",
        Flag(
            "--precision",
            Form.TEXT,
            "float32, or mixed: store saved activations as float16, and use float16 operands in "
            "large matrix products and convolutions where the target can (default: float32)",
            "P",
        ),
    )
    micro_batches: int | None = option(
        None,
        optional(WHOLE),
        "how many of them make a step, 1 for none. They divide the batch. By default there are as "
        "many as the budget needs.",
        Flag(
            "--micro-batches",
            Form.COUNT,
            "split the batch of a step into K equal parts, and add up their gradients (default: "
            "as many as the memory budget needs)",
            "K",
        ),
    )
    allow_split_batchnorm: bool = option(
        False,
        FLAG,
        "whether batch normalisations may take the statistics of a micro-batch in place of those "
        "of the batch, which changes what they compute.",
        Flag(
            "--allow-split-batchnorm",
            Form.SWITCH,
            "let batch normalisation use the statistics of a micro-batch, which changes what it "
            "computes",
        ),
    )
    allow_half_activations: bool = option(
        False,
        FLAG,
        "whether what the backward pass reads of the forward pass may be stored as float16, where "
        "that is the fastest way within the budget. All is computed in float32, and the loss is "
        "exact; gradients are as good as what is stored: each value is rounded by at most 1 part "
        "in 2,048.",
        Flag(
            "--allow-half-activations",
            Form.SWITCH,
            "to meet a memory budget, allow activations saved for the backward pass to be stored "
            "as float16 where that is fastest; the loss stays exact, gradients are computed from "
            "the rounded values",
        ),
    )
    offload: bool = option(
        False,
        FLAG,
        "whether tensors of a step with a budget may wait in a file on the device, where that is "
        "faster than to compute them again, by the bandwidths of the target's storage. The values "
        "are the same. Such a file has no name, and ends with the trainer.",
        Flag(
            "--offload",
            Form.SWITCH,
            "to meet a memory budget, allow tensors to be moved to a file on the device where "
            "that is faster than recomputing them; the target's options storage_write and "
            "storage_read give its bytes per second",
        ),
    )
    dropout: bool = option(
        True,
        FLAG,
        "whether training steps drop elements where the model has Dropout; evaluation never does.",
        Flag(
            "--dropout",
            Form.SWITCH,
            "apply the model's Dropout in training steps (default: dropout)",
        ),
    )
    seed: int = option(
        0,
        WHOLE,
        "of the masks of dropout, below 2**63. With the number of the step it says which elements "
        "are dropped.",
        Flag("--seed", Form.WHOLE, "seed of the dropout masks (default: 0)", "N"),
    )
    tuned: bool = option(
        True,
        FLAG,
        "whether products that were measured on such a device get the loops that were the fastest "
        "there; see `odtc tune`. All others follow a model of the target.",
        Flag(
            "--tuned",
            Form.SWITCH,
            "use the fastest loops that were measured for a matrix product or convolution (see "
            "`odtc tune`), rather than choose all loops by the target's cost model (default: "
            "tuned)",
        ),
    )
    database: str | os.PathLike[str] | None = option(
        None,
        optional(PATH),
        "the file of such measurements, beside those that ship with odtc; the user's own one by "
        "default.",
        Flag(
            "--database",
            Form.TEXT,
            "file with the measurements of `odtc tune` (default: the user's own file)",
            "FILE",
        ),
    )
    # Not every command that takes a step's options has a device; `odtc compile` adds it itself.
    device: Device | str | None = option(
        None,
        kinds.DEVICE,
        "that the step will run on, by its URL, as of `Artifact.trainer`: what `odtc tune` "
        "measured there goes before what was measured on others of its family. By default it is "
        "this machine, for a target that is this machine.",
    )
    layout: str = option(
        DEFAULT,
        kinds.LAYOUT,
        "of images in a training step on a CPU: `native` for that of ONNX; `cheapest` for those in "
        "which the step is fastest by a model of the target, with the copies in between; `auto` "
        "for these if the model promises more than it is wrong by; or the path of a plan, as "
        "`odtc inspect --layouts` prints it.",
        Flag(
            "--layout",
            Form.TEXT,
            "layout of images in a step on a CPU: native (ONNX's), cheapest (NHWC where the "
            "target's cost model says that operators are faster), auto (the same, if the "
            "predicted gain exceeds the model's error), or a file printed by `odtc inspect "
            "--layouts` (default: native)",
            "L",
        ),
    )

    @property
    def evaluated(self) -> Sequence[int]:
        """Numbers of samples that can be evaluated beside a whole batch."""
        return (self.eval_batch,) if isinstance(self.eval_batch, int) else self.eval_batch

    @property
    def falling_lengths(self) -> Sequence[int]:
        """The lengths of a step, the longest first; none where it has one size."""
        given = (self.lengths,) if isinstance(self.lengths, int) else self.lengths
        return sorted({*given}, reverse=True)
