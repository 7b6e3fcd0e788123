"""Maps of scores, which files of scikit-learn give in place of a tensor."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

Labels = list[Any]


def maps_of(graph: onnx.GraphProto) -> dict[str, Labels]:
    """The labels of the classes, in order, of each tensor of maps that a ZipMap makes."""
    found = {}
    for node in graph.node:
        if node.op_type == "ZipMap":
            values = {item.name: helper.get_attribute_value(item) for item in node.attribute}
            labels = values.get("classlabels_int64s") or values.get("classlabels_strings") or []
            found[node.output[0]] = [
                label.decode() if isinstance(label, bytes) else label for label in labels
            ]
    return found


def as_scores(maps: Sequence[Mapping[Any, float]], labels: Labels) -> np.ndarray:
    """Scores `[samples, classes]` of maps from a label to its score."""
    return np.array([[each[label] for label in labels] for each in maps], np.float32)


def probabilities(logits: np.ndarray) -> np.ndarray:
    """Returns the softmax over the classes of logits, since a map holds probabilities."""
    powers = np.exp(logits - logits.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)
