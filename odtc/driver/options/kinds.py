"""Kinds of the arguments of `odtc.compile` and `odtc.plan`: which step is made of a model."""

from odtc.backends.targets import Target
from odtc.core.options.kinds import (
    ANYTHING,
    PATH,
    TEXT,
    WHOLE,
    either,
    instance,
    instance_of,
    mapping,
    optional,
    several,
)

MODEL = PATH.with_hint(
    "give the path of an ONNX file; odtc.from_torch writes one of a module, onnx.save of a model"
)
TARGET = either(
    instance(Target, "Target", ""),
    TEXT,
    hint="give the name of one, such as 'host-cpu'; `odtc targets` lists them",
)

CHOICES = either(
    TEXT,
    several(TEXT, "list of strings", ""),
    hint="give a glob over the names of parameters, such as 'fc*', or a list of them",
)
ADAPTERS = optional(
    either(
        instance_of("odtc.frontend.trained.lora", "LoRA", "odtc.LoRA", ""),
        TEXT,
        hint="give odtc.LoRA(rank=8), or its text, such as 'rank=8,targets=*.query*'",
    )
)
QUANTIZATION = optional(TEXT.with_hint("give 'int4', 'int4{block=64}', 'int8' or 'int8{block=64}'"))
SAMPLES = optional(WHOLE.with_hint("give the number of samples in a step, such as 32"))
EVALUATED = either(
    WHOLE,
    several(WHOLE, "list of whole numbers", ""),
    hint="give numbers of samples below the batch, such as 1 or (1, 8)",
)
LENGTHS = either(
    WHOLE,
    several(WHOLE, "list of whole numbers", ""),
    hint="give numbers of tokens, such as (64, 128, 256)",
)
SHAPES = optional(
    mapping(
        either(WHOLE, several(WHOLE, "tuple of whole numbers", "")),
        "dictionary",
        "give sizes by the name of a dimension, or of an input: {'width': 48} or "
        "{'x': (2, 3, 48, 48)}",
    )
)
AXES = optional(
    mapping(
        optional(WHOLE),
        "dictionary",
        "give the axis by the name of an input or output, or None: {'x': 1, 'mask': None}",
    )
)
VALUES = optional(
    mapping(ANYTHING, "dictionary", "give values by the name of an input: {'sr': 16000}")
)
NORMALIZATION = optional(
    either(
        instance_of("odtc.frontend.inputs.normalization", "Normalize", "odtc.Normalize", ""),
        PATH,
        hint="give odtc.Normalize(mean, std), 'imagenet', or the path of data to compute them from",
    )
)
PRECISION = TEXT.with_hint("give 'float32' or 'mixed'")
DEVICE = optional(
    either(
        TEXT,
        instance_of("odtc.autoschedule.tuning.record", "Device", "Device", ""),
        hint="give its URL: rpc://HOST:PORT/KEY of a tracker, or adb://SERIAL",
    )
)
LAYOUT = either(TEXT, PATH, hint="give 'native', 'auto' or 'cheapest', or the path of a plan")
