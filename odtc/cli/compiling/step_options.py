"""The options that say which training step is made of a model, and for which target."""

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from odtc.cli.compiling.selection import add_selection_options
from odtc.cli.compiling.update_options import add_update_options, read_update
from odtc.cli.options import add_model_options, at_least
from odtc.core.disk.file_kinds import mistaken
from odtc.core.errors import UsageError

if TYPE_CHECKING:
    from odtc.driver.step_options import StepOptions


def add_step_options(parser: argparse.ArgumentParser, *, needs_model: bool = True) -> None:
    """The model, the target, and how the step is made.

    Args:
        parser: of the command.
        needs_model: whether the command does nothing without a model.
    """
    add_model_options(parser, is_needed=needs_model)
    parser.add_argument(
        "--target", default="host-cpu", metavar="T", help="see `odtc targets` (default: host-cpu)"
    )
    add_selection_options(parser)
    parser.add_argument(
        "--precision",
        default="float32",
        metavar="P",
        help="float32, or mixed: saved activations are stored as float16, and large products "
        "multiply it where the CPU can (default: float32)",
    )
    parser.add_argument(
        "--no-dropout",
        dest="dropout",
        action="store_false",
        help="train without the model's dropout",
    )
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N", help="of the masks of dropout (default: 0)"
    )
    parser.add_argument(
        "--micro-batches",
        type=at_least(1),
        metavar="K",
        help="run a step as K equal parts of its batch, whose gradients are added up (default: as "
        "many as the memory budget needs)",
    )
    parser.add_argument(
        "--allow-split-batchnorm",
        action="store_true",
        help="let batch normalisations take the statistics of a micro-batch: it changes what they "
        "compute",
    )
    parser.add_argument(
        "--allow-half-activations",
        action="store_true",
        help="let a step with a budget store what its backward pass reads as float16, where that "
        "is faster than the other ways: the loss is exact, gradients are those of rounded values",
    )
    parser.add_argument(
        "--offload",
        action="store_true",
        help="let tensors of a step with a budget wait in a file on the device, where that is "
        "faster than to compute them again; the target's options storage_write and storage_read "
        "are its bytes a second",
    )
    parser.add_argument(
        "--no-tuned",
        dest="tuned",
        action="store_false",
        help="write all kernels by a model of the target, though some were measured",
    )
    parser.add_argument(
        "--database",
        metavar="FILE",
        help="what `odtc tune` measured (default: the user's own file)",
    )
    parser.add_argument(
        "--layout",
        default="native",
        metavar="L",
        help="of images in a step on a CPU: native for that of ONNX; cheapest for NHWC where "
        "operators are faster with it, by a model of the target; auto for the same if it promises "
        "more than it is wrong by; or a file that `odtc inspect --layouts` printed "
        "(default: native)",
    )
    add_update_options(parser)


def check_is_not_model(output: Path, model: str, hint: str) -> None:
    """Checks that what is written does not replace the model.

    Raises:
        UsageError: it would.
    """
    if os.path.realpath(output) == os.path.realpath(model):
        raise mistaken(model, "ONNX model", UsageError) or UsageError(
            "the output would replace the model", where=str(output), hint=hint
        )


def step_options(args: argparse.Namespace) -> "StepOptions":
    """What `add_step_options` read, without the model and the target."""
    from odtc.frontend.losses.terms import parse_terms
    from odtc.frontend.trained.lora import parse_lora

    return {
        "batch": args.batch,
        "loss": parse_terms(args.loss),
        "optimizer": read_update(args),
        "params": args.train,
        "freeze": args.freeze,
        "freeze_batch_norm": args.freeze_batch_norm,
        "lora": parse_lora(args.lora) if args.lora else None,
        "shape": dict(args.shape),
        "batch_axes": dict(args.batch_axis),
        "set_inputs": dict(args.set),
        "precision": args.precision,
        "dropout": args.dropout,
        "seed": args.seed,
        "micro_batches": args.micro_batches,
        "allow_split_batchnorm": args.allow_split_batchnorm,
        "allow_half_activations": args.allow_half_activations,
        "offload": args.offload,
        "tuned": args.tuned,
        "database": args.database,
        "layout": args.layout,
    }
