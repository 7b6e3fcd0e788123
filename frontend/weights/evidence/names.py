"""Classifies tensors by their names, as the program that wrote the file chose them.

A name that is an entry of a state dict or a variable says that the tensor may be a parameter; it
may be a buffer as well. Numbers of the program have names that an exporter made up.
"""

import re

import onnx

_ENTRY = re.compile(r"[A-Za-z_]\w*(\.\w+)*|\d+(\.\w+)+")
_MADE_UP = re.compile(r"(val|constant|_val|t|x)_?\d+|input\.\d+", re.IGNORECASE)
_VARIABLE = "ReadVariableOp"
_NAMED_BY_MODULE = ("pytorch", "odtc")


def is_entry(name: str, producer: str) -> bool:
    """Whether a name is an entry of a state dict or of a graph's variables."""
    if producer.lower() in _NAMED_BY_MODULE:
        return bool(_ENTRY.fullmatch(name)) and not _MADE_UP.fullmatch(name)
    return _VARIABLE in name


def names_modules(model: onnx.ModelProto) -> bool:
    """Whether the parameters of a file have the names of a module's, so that others are none."""
    producer = model.producer_name.lower()
    return producer in _NAMED_BY_MODULE and any(
        is_entry(tensor.name, producer) for tensor in model.graph.initializer
    )
