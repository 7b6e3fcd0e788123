"""Kinds of the arguments of `odtc.compile` and `odtc.plan`: which step is made of a model."""

from odtc.autoschedule.tuning.record import Device
from odtc.backends.targets import Target
from odtc.core.options.kinds import (
    ANYTHING,
    FLAG,
    PATH,
    TEXT,
    WHOLE,
    either,
    instance,
    mapping,
    optional,
    several,
)
from odtc.frontend.trained.lora import LoRA

MODEL = PATH.with_hint(
    "give the path of an ONNX file; odtc.from_torch writes one of a module, onnx.save of a model"
)
TARGET = either(
    instance(Target, "Target", ""),
    TEXT,
    hint="give the name of one, such as 'host-cpu'; `odtc targets` lists them",
)
MODEL_AND_TARGET = {"model": MODEL, "target": TARGET}

_CHOICES = either(
    TEXT,
    several(TEXT, "list of texts", ""),
    hint="give a glob over the names of parameters, such as 'fc*', or a list of them",
)
_LORA = either(
    instance(LoRA, "odtc.LoRA", ""),
    TEXT,
    hint="give odtc.LoRA(rank=8), or its text, such as 'rank=8,targets=*.query*'",
)
_SIZES = either(WHOLE, several(WHOLE, "tuple of whole numbers", ""))
_BATCH = WHOLE.with_hint("give the number of samples in a step, such as 32")

STEP = {
    "batch": optional(_BATCH),
    "loss": ANYTHING,  # `terms_of` reads it
    "optimizer": ANYTHING,  # and `optimizer_of` this
    "params": optional(_CHOICES),
    "freeze": _CHOICES,
    "freeze_batch_norm": FLAG,
    "lora": optional(_LORA),
    "shape": optional(
        mapping(
            _SIZES,
            "dictionary",
            "give sizes by the name of a dimension, or of an input: {'width': 48} or "
            "{'x': (2, 3, 48, 48)}",
        )
    ),
    "batch_axes": optional(
        mapping(
            optional(WHOLE),
            "dictionary",
            "give the axis by the name of an input or output, or None: {'x': 1, 'mask': None}",
        )
    ),
    "set_inputs": optional(
        mapping(ANYTHING, "dictionary", "give values by the name of an input: {'sr': 16000}")
    ),
    "precision": TEXT.with_hint("give 'float32' or 'mixed'"),
    "dropout": FLAG,
    "seed": WHOLE,
    "micro_batches": optional(WHOLE),
    "allow_split_batchnorm": FLAG,
    "allow_half_activations": FLAG,
    "offload": FLAG,
    "tuned": FLAG,
    "database": optional(PATH),
    "device": optional(
        instance(Device, "Device", "give what odtc.tuner.tuning.device_at(url, target) returns")
    ),
    "layout": either(TEXT, PATH, hint="give 'native', 'auto' or 'cheapest', or the path of a plan"),
}
