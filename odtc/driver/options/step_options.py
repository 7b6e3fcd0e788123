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
        "samples per step; may be omitted if the model has a fixed batch.",
        Flag("--batch", Form.WHOLE, "samples per step", "N"),
    )
    eval_batch: Sequence[int] | int = option(
        (),
        kinds.EVALUATED,
        "one or more batch sizes below that of the step at which the model can be evaluated, "
        "too. Each adds the kernels of another evaluation. A batch of any other size is padded, "
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
        "loss on the first output: an object such as `odtc.CrossEntropy()`, its text, or the "
        "path of an ONNX file that computes it. Or a loss for each output that is trained, by "
        'name; a pair gives it a weight: `{"logits": "mse", "aux": (0.3, "mse")}`, or as text '
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
        "optimizer, or its text such as `adamw{weight-decay=0.01}`; or an `Update`, which adds "
        "options such as clipping. Plain SGD by default. The learning rate is given at each step.",
    )
    train: Sequence[str] | str | None = option(
        None,
        optional(kinds.CHOICES),
        "parameters to train: globs over ONNX initializer names and other choices, as text; see "
        "`odtc.frontend.trained.choices`. All others are frozen. By default all are trained, or "
        "with `lora` only the adapters.",
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
        "parameters not to train, even if `train` selects them.",
        Flag(
            "--freeze", Form.TEXTS, "parameters not to train, even if --train selects them", "WHAT"
        ),
    )
    freeze_batch_norm: bool = option(
        False,
        FLAG,
        "whether batch normalisations whose parameters are frozen use their running statistics "
        "and do not update them, like PyTorch's in `eval()`.",
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
        "format in which to store frozen matrices of matrix products and embeddings, rounded to "
        "nearest: `int4{block=32}`, with a scale and a zero point for each block of elements, "
        "`int8`, with a scale for each output channel, or `int8{block=N}`. Losses, `evaluate` "
        "and exports use the rounded weights.",
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
        "whether the artifact refers to weights in the model's files, if these hold them as the "
        "step reads them, instead of copying them. It is smaller, and a trainer needs the files "
        "next to the artifact, or in the folder given to `odtc.load`. Weights that have changed "
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
        'input, by the name of the input: `{"x": (2, 3, 48, 192)}`.',
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
        "sizes, such as `(64, 128, 256)` tokens, of the symbolic dimensions that neither the "
        "batch nor `shape` sets. The step is compiled for each of them, and they share weights "
        "and state; a trainer runs each batch at the shortest length that holds it, and pads it.",
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
        "batch axis of an input or output, by its name, if it cannot be told from the model; "
        "None for one without a batch.",
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
        "values of inputs that become constants of the step, by name: numbers or lists. The "
        "exported model still has these inputs.",
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
        "normalisation of an image or a row that becomes a part of the model: "
        "`odtc.Normalize(mean, std)`, its text `mean=0.5,std=0.25`, `imagenet`, or the path of "
        "data to compute means and standard deviations from. Images are then fed as pixels: "
        "bytes from 0 to 255.",
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
        "`float32`, or `mixed`: activations saved for the backward pass are stored as float16, "
        "and if the CPU, or the GPU that the target names, has float16 arithmetic, large matrix "
        "products and convolutions take float16 operands. These need a loss scale: it is "
        "`dynamic` unless the update has one. Weights, gradients, sums and all other arithmetic "
        "stay float32.",
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
        "number of equal parts that the batch of a step is split into, 1 for no split; a divisor "
        "of the batch. By default as many as the budget needs.",
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
        "whether batch normalisations may use the statistics of a micro-batch instead of those "
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
        "whether activations saved for the backward pass may be stored as float16, if that is "
        "the fastest way to meet the budget. Everything is computed in float32, and the loss is "
        "exact; gradients are computed from the stored values, each of which is rounded by at "
        "most 1 part in 2,048.",
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
        "whether tensors of a step with a budget may be moved to a file on the device, if the "
        "bandwidths of the target's storage make that faster than recomputing them. The values "
        "are the same. The file has no name, and is gone when the trainer is closed.",
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
        "whether training steps apply the model's Dropout; evaluation never does.",
        Flag(
            "--dropout",
            Form.SWITCH,
            "apply the model's Dropout in training steps (default: dropout)",
        ),
    )
    seed: int = option(
        0,
        WHOLE,
        "seed of the dropout masks, below 2**63. Together with the number of the step it decides "
        "which elements are dropped.",
        Flag("--seed", Form.WHOLE, "seed of the dropout masks (default: 0)", "N"),
    )
    tuned: bool = option(
        True,
        FLAG,
        "whether matrix products and convolutions that were measured on the target's kind of "
        "device use the loops that were fastest there; see `odtc tune`. Loops of all others are "
        "chosen by a cost model of the target.",
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
        "file with measurements of `odtc tune`, in addition to those that ship with odtc; by "
        "default the user's own.",
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
        "URL of the device that the step will run on, as in `Artifact.trainer`: measurements of "
        "`odtc tune` on this device take precedence over those on others of its family. By "
        "default this machine, if the target is this machine.",
    )
    layout: str = option(
        DEFAULT,
        kinds.LAYOUT,
        "layout of images in a training step on a CPU: `native` for ONNX's; `cheapest` for the "
        "layouts with which the step, including copies between them, is fastest by a cost model "
        "of the target; `auto` for the same, if the predicted gain exceeds the model's error; or "
        "the path of a plan, as `odtc inspect --layouts` prints it.",
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
