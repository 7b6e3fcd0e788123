"""Low-rank adapters of frozen weights (LoRA): what is known of one, and how it is merged.

    Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", 2021

An adapter stands beside a weight W as two small tensors, `down` (A) and `up` (B):

    W                                        down                 up
    a matrix [in, out], or [out, in]         [in, rank]           [rank, out]
    a convolution's [out, in, *kernel]       [rank, in, *kernel]  [out, rank, 1...]

and the model computes as if it had the weight W + scale * (down, then up). In files they have the
names and shapes of Hugging Face PEFT: matrices are transposed there.

With a `magnitude` (DoRA), one number for each output channel, the model computes as if it had that
weight over the norm of each of its output channels, times the magnitude.

    Liu et al., "DoRA: Weight-Decomposed Low-Rank Adaptation", 2024
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from odtc.core.errors import UnsupportedError
from odtc.core.onnx_model.quantised_names import plain_name

PEFT_PREFIX = "base_model.model."
# Parameters of nn.MultiheadAttention: one of query, key and value, or one of each.
_OF_ATTENTION = ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight")


@dataclass(frozen=True)
class Adapter:
    """The adapter of one weight.

    Attributes:
        weight: ONNX initializer that it is for; one of integers is no parameter of the model.
        down: name of A, which leads down to the rank.
        up: name of B, which leads up again.
        scale: factor of their product: alpha / rank, or alpha / sqrt(rank).
        transposed: whether a matrix is stored `[out, in]`.
        dropout: share of its input's elements that a training step drops.
        magnitude: name of the norms of the weight's output channels; empty where it has none.
    """

    weight: str
    down: str
    up: str
    scale: float
    transposed: bool = False
    dropout: float = 0.0
    magnitude: str = ""

    @property
    def tensors(self) -> tuple[str, ...]:
        """Names of all that it is made of."""
        return self.down, self.up, *([self.magnitude] if self.magnitude else [])

    def merged(self, weights: Mapping[str, np.ndarray]) -> np.ndarray:
        """The weight with its adapter, of the weight's shape; float32.

        Args:
            weights: at least the weight, if it is of floats, and `tensors`, by name.

        Raises:
            UnsupportedError: the weight is kept as integers.
        """
        weight = weights.get(self.weight)
        if weight is None:
            raise UnsupportedError(
                "the weight is kept as integers, and no adapter can be merged into it",
                where=f"weight {self.weight}",
                hint="write the adapters alone, with export_adapters or --export-adapters",
            )
        down, up = (weights[name].astype(np.float64) for name in (self.down, self.up))
        if down.ndim == 2:
            delta = down @ up
        else:
            delta = np.tensordot(up.reshape(up.shape[:2]), down, axes=1)
        delta = self.scale * (delta.T if self.transposed else delta)
        whole = weight + delta
        if self.magnitude:
            whole *= self._factors(whole, weights[self.magnitude])
        return whole.astype(np.float32)

    def _factors(self, whole: np.ndarray, magnitude: np.ndarray) -> np.ndarray:
        """What the output channels of a weight are multiplied by to be as large as is learned."""
        first = whole.ndim > 2 or self.transposed
        axes = tuple(range(1, whole.ndim)) if first else (0,)
        norms = np.sqrt((whole**2).sum(axis=axes, keepdims=True))
        return magnitude.astype(np.float64).reshape(norms.shape) / norms


def merge_adapters(
    weights: Mapping[str, np.ndarray], adapters: Iterable[Adapter]
) -> dict[str, np.ndarray]:
    """The weights of the model without adapters that computes the same.

    Raises:
        UnsupportedError: a weight is kept as integers.
    """
    merged = {adapter.weight: adapter.merged(weights) for adapter in adapters}
    return without_adapters(weights, adapters) | merged


def without_adapters(
    weights: Mapping[str, np.ndarray], adapters: Iterable[Adapter]
) -> dict[str, np.ndarray]:
    """The weights of the model as they are beside their adapters."""
    added = {name for adapter in adapters for name in adapter.tensors}
    return {k: v for k, v in weights.items() if k not in added}


def read_by_attention(weights: Iterable[str], model: Iterable[str]) -> list[str]:
    """Those of some weights that nn.MultiheadAttention reads itself, each once.

    It calls no module that has them, so PEFT would not apply an adapter there.

    Args:
        weights: names of ONNX initializers, as PyTorch calls them.
        model: names of all weights of the model.
    """
    parts = [plain_name(name).rpartition(".") for name in model]
    owners = {owner for owner, _, name in parts if name in _OF_ATTENTION}
    outputs = {f"{owner}.out_proj.weight".removeprefix(".") for owner in owners}
    plain = {weight: plain_name(weight) for weight in weights}
    return [
        weight
        for weight, name in plain.items()
        if name in outputs or name.rpartition(".")[2] in _OF_ATTENTION
    ]


def rank_of(down: tuple[int, ...]) -> int:
    """The rank of an adapter, from the shape of its A."""
    return down[1] if len(down) == 2 else down[0]


def to_peft(name: str, value: np.ndarray) -> tuple[str, np.ndarray]:
    """Name and value of an adapter's tensor as PEFT stores it."""
    return PEFT_PREFIX + name, _turned(value)


def from_peft(name: str, value: np.ndarray) -> tuple[str, np.ndarray]:
    """The inverse of `to_peft`."""
    return name.removeprefix(PEFT_PREFIX), _turned(value)


def _turned(value: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(value.T) if value.ndim == 2 else value
