"""The kinds of models that are edited, and what each is asked for with."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from onnx import ModelProto

from tests.fuzz.graphs import image_kinds, sequence_kinds, structure_kinds

# Kinds whose weights are written to a file beside the model.
OUTSIDE = frozenset({"external_data"})
_ASKED: Mapping[str, Mapping[str, Any]] = {
    "two_losses": {"loss": {"y": "cross-entropy", "z": (0.5, "mse")}},
    "siamese": {"loss": "cross-entropy{label-smoothing=0.1}"},
    "mlp": {"loss": "huber", "optimizer": "sgd{momentum=0.9}"},
    "encoder": {"optimizer": "adamw"},
}


@dataclass(frozen=True)
class Kind:
    """A kind of models.

    Attributes:
        make: builds the model.
        options: of `odtc.compile`.
    """

    make: Callable[[], ModelProto]
    options: Mapping[str, Any] = field(default_factory=dict)


KINDS: Mapping[str, Kind] = {
    make.__name__: Kind(make, {"batch": 2, **_ASKED.get(make.__name__, {})})
    for family in (image_kinds, sequence_kinds, structure_kinds)
    for make in family.KINDS
}
