"""The list of weights in an ONNX file that odtc made: parameters, buffers, frozen ones and ties.

The file has it as the JSON text of the metadata key `odtc.weights`:

    {"parameters": [names], "buffers": [names], "frozen": [names], "ties": {other name: name}}

Names are those of the module's `state_dict`, and of the file's initializers. What is frozen is
among the buffers, too, so that a reader of the first two lists alone does not train it.
"""

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

import onnx

from odtc.core.errors import ModelError

KEY = "odtc.weights"


@dataclass(frozen=True)
class WeightList:
    """The weights of a file, by what they were in the module.

    Attributes:
        parameters: that are trained.
        buffers: that are not: running statistics, tables, counters, and frozen parameters.
        frozen: of these, the parameters that need no gradient.
        ties: the other names of a tensor that the module has under several, each with the name of
            its one initializer.
    """

    parameters: tuple[str, ...]
    buffers: tuple[str, ...] = ()
    frozen: tuple[str, ...] = ()
    ties: Mapping[str, str] = field(default_factory=dict)

    @property
    def initializers(self) -> tuple[str, ...]:
        """Names of all that are listed, each once."""
        return (*self.parameters, *self.buffers)


def write_weight_list(model: onnx.ModelProto, weights: WeightList) -> None:
    """Puts the list into the model's metadata, in the place of one that is there."""
    others = [item for item in model.metadata_props if item.key != KEY]
    del model.metadata_props[:]
    model.metadata_props.extend(others)
    model.metadata_props.add(key=KEY, value=json.dumps(dataclasses.asdict(weights)))


def read_weight_list(model: onnx.ModelProto) -> WeightList | None:
    """The list in the model's metadata; None where there is none.

    Raises:
        ModelError: it is malformed.
    """
    text = next((item.value for item in model.metadata_props if item.key == KEY), None)
    if text is None:
        return None
    try:
        data = json.loads(text)
        return WeightList(
            parameters=_names(data["parameters"]),
            buffers=_names(data["buffers"]),
            frozen=_names(data.get("frozen", [])),
            ties=_ties(data.get("ties", {})),
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ModelError(
            f"the list of parameters and buffers is damaged: {type(error).__name__}: {error}",
            where=f"metadata {KEY}",
            hint="export the model again",
        ) from error


def _names(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise TypeError("parameters and buffers are lists")
    if not all(isinstance(item, str) for item in value):
        raise TypeError("a name is no text")
    return tuple(value)


def _ties(value: object) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
        raise TypeError("ties are names by name")
    return dict(value)
