"""Low-rank adapters beside frozen weights, put into the ONNX graph before it is normalised.

    Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", 2021

A layer's result gets a second term through `rank` channels, `scale = alpha / rank`, or
`alpha / sqrt(rank)` (Kalajdzievski, "A Rank Stabilization Scaling Factor for Fine-Tuning with
LoRA", 2023):

    MatMul, Gemm   y + scale * (x A) B                  A [in, rank], B [rank, out]
    Conv           y + Conv1x1(scale * Conv(x, A), B)   A [rank, in, *kernel], B [out, rank, 1, 1]
    Gather         y + (scale * A[ids]) B               A [words, rank], B [rank, width]

With magnitudes (DoRA) all of it, but for a bias, is scaled for each output channel
(`frontend/trained/dora.py`). Where dropout is asked for, the x of the second term has it in a
training step, but for embeddings, as in PEFT. The term is zero at first, as in the authors' own
code: B is zero and A uniform within ±1 / sqrt(fan-in); of an embedding A is zero and B normal. What
comes of it can be merged into the weights (`odtc/core/adapters.py`), so the trained model needs no
other graph than the original.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

import numpy as np
import onnx

from odtc.core.adapters import Adapter, read_by_attention
from odtc.core.errors import UnsupportedError, UsageError
from odtc.core.onnx_model.quantised_names import plain_name
from odtc.core.options.arguments import plainly_made
from odtc.core.options.checked_options import (
    check_options,
    count,
    fraction,
    natural,
    positive,
    read_options,
    switch,
    text,
)
from odtc.core.options.option_text import LORA_FORM, parse_options
from odtc.frontend.graph import Graph
from odtc.frontend.trained.all_linear import ALL_LINEAR, all_linear
from odtc.frontend.trained.dora import norms_of, scale_nodes
from odtc.frontend.trained.layers import Layer, layers_of
from odtc.frontend.trained.lora_forms import FORMS, AdapterForm, adapted_nodes, refusal
from odtc.frontend.trained.lora_patterns import (
    Patterns,
    number_of,
    read_patterns,
    require_matches,
)
from odtc.frontend.trained.quantised_layers import quantised_layers
from odtc.frontend.trained.selection import Selection

_ALL = "*"
# As PEFT calls it, after the module's name.
_MAGNITUDE = ".lora_magnitude_vector"
# A form and whether it reads a matrix transposed.
_Way = tuple[AdapterForm | None, bool]


@plainly_made
@dataclass(frozen=True)
class LoRA:
    """LoRA: low-rank adapters that are trained in place of weights.

    Args:
        rank: rank of the adapters, at least 1.
        alpha: scaling of the adapters, by alpha / rank; above 0.
        targets: weights to adapt, as globs over ONNX initializer names, separated by `|`. `*` is
            all, except a weight that an embedding and the head share, and weights that are trained
            themselves; `all-linear` is those of them that PEFT's `all-linear` adapts: weights of
            linear layers, except the head, and of nn.MultiheadAttention.
        seed: seed of the adapters' initial values.
        rslora: whether to scale by alpha / sqrt(rank) instead (rank-stabilised LoRA).
        dropout: dropout probability of an adapter's input in training steps, below 1; adapters of
            embeddings have none.
        dora: whether to train a magnitude for each output channel of an adapted weight as well
            (DoRA). Not together with dropout.
        rank_pattern: different ranks for some adapters, such as `*q_proj*:4|*down_proj*:16`; the
            first glob that matches the weight's ONNX name applies.
        alpha_pattern: the same for `alpha`.

    Raises:
        UsageError: a value is outside its range, or `dora` is combined with dropout.
    """

    rank: int = count(8)
    alpha: float = positive(16.0)
    targets: str = text(_ALL)
    seed: int = natural(0)
    rslora: bool = switch(False)
    dropout: float = fraction(0.0)
    dora: bool = switch(False)
    rank_pattern: str | None = text(None)
    alpha_pattern: str | None = text(None)

    def __post_init__(self) -> None:
        check_options(self)
        if self.dora and self.dropout:
            raise UsageError(
                f"adapters with dora cannot have dropout, which is {self.dropout:g}",
                hint="leave one of them out: the layer itself would have to be computed a second "
                "time, on its input after dropout",
            )

        self._ranks()
        self._alphas()

    def rank_of(self, weight: str) -> int:
        """The rank of a weight's adapter."""
        return number_of(self._ranks(), weight, self.rank)

    def scale_of(self, weight: str) -> float:
        """Factor of the term of a weight's adapter."""
        rank, alpha = self.rank_of(weight), number_of(self._alphas(), weight, self.alpha)
        return alpha / (math.sqrt(rank) if self.rslora else rank)

    def has_one_scale(self, weights: Iterable[str]) -> bool:
        """Whether adapters of weights have the same scale with `rslora` as without."""
        return all(self.rank_of(weight) == 1 for weight in weights)

    def require_matches(self, weights: Collection[str]) -> None:
        """Checks that the globs of the patterns match weights that are adapted.

        Raises:
            UsageError: one does not.
        """
        require_matches("rank_pattern", self._ranks(), weights)
        require_matches("alpha_pattern", self._alphas(), weights)

    def _ranks(self) -> Patterns[int]:
        return read_patterns("rank_pattern", self.rank_pattern, int)

    def _alphas(self) -> Patterns[float]:
        return read_patterns("alpha_pattern", self.alpha_pattern, float)

    @property
    def globs(self) -> list[str]:
        """The globs of `targets`."""
        return [glob.strip() for glob in self.targets.split("|")]


def parse_lora(text: str) -> LoRA:
    """Reads `rank=8,alpha=16,targets=GLOB|GLOB`.

    Raises:
        UsageError: the text is malformed, or names an option or a value that is none.
    """
    try:
        _, given = parse_options(f"lora{{{text}}}")
    except ValueError as error:
        raise UsageError(
            f"cannot read the adapters {text!r}: {error}", hint=f"write {LORA_FORM}"
        ) from error
    return LoRA(**read_options("adapter lora", LoRA, given))


def adapt(graph: Graph, lora: LoRA, selection: Selection) -> tuple[Selection, tuple[Adapter, ...]]:
    """Adds the adapters to the graph, in place.

    Args:
        graph: specialised, not yet normalised.
        lora: what to add.
        selection: what else is trained.

    Returns:
        The selection with the adapters' tensors, and the adapters.

    Raises:
        UsageError: a target matches nothing, no weight is left for an adapter, the rank is too
            large for a weight, or an adapted weight is selected too.
        UnsupportedError: a target is the weight of an operator that is not adapted.
    """
    layers = matching = _targets(graph, lora)
    if lora.targets in (_ALL, ALL_LINEAR):
        layers = _without_tied(graph, layers)
        layers = [layer for layer in layers if layer.weight not in selection.trained]
    if lora.targets == ALL_LINEAR:
        layers = all_linear(graph, layers, {layer.position for layer in matching})
    if not layers:
        raise UsageError(
            "LoRA: no weight of a layer is left for an adapter: a weight that is trained gets "
            "none, nor does the last layer by default",
            hint="train less in addition to the adapters, or name the targets, such as "
            "targets=*.query*",
        )
    lora.require_matches({layer.weight for layer in layers})
    for layer in layers:
        _check(graph, layer, lora.rank_of(layer.weight), selection)
    _check_shared(layers)
    _tell_of_attention(graph, layers)
    rng = np.random.default_rng(lora.seed)
    adapters: dict[str, Adapter] = {}
    for layer in layers:
        if layer.weight not in adapters:
            adapters[layer.weight] = _add_parameters(graph, layer, lora, rng)
    nodes = {layer.position: layer for layer in layers}
    scales = _scales(graph, layers, adapters)
    graph.nodes = [
        new
        for position, node in enumerate(graph.nodes)
        for new in (
            *scales.get(position, ()),
            *(
                adapted_nodes(graph, nodes[position], adapters[nodes[position].weight])
                if position in nodes
                else [node]
            ),
        )
    ]
    graph.infer_shapes()
    added = [name for adapter in adapters.values() for name in adapter.tensors]
    trained = {**selection.trained, **dict.fromkeys(added)}
    return replace(selection, trained=trained), tuple(adapters.values())


def _scales(
    graph: Graph, layers: Sequence[Layer], adapters: Mapping[str, Adapter]
) -> dict[int, list[onnx.NodeProto]]:
    """The nodes of the scales of output channels, by the position of the first that reads them."""
    found: dict[int, list[onnx.NodeProto]] = {}
    seen: set[str] = set()
    for layer in layers:
        adapter = adapters[layer.weight]
        if adapter.magnitude and layer.weight not in seen:
            seen.add(layer.weight)
            found[layer.position] = list(scale_nodes(graph, layer, adapter))
    return found


def _targets(graph: Graph, lora: LoRA) -> list[Layer]:
    layers = sorted((*layers_of(graph), *quantised_layers(graph)), key=lambda each: each.position)
    if lora.targets == ALL_LINEAR:
        return layers
    for glob in lora.globs:
        if not any(fnmatchcase(layer.weight, glob) for layer in layers):
            raise UsageError(
                f"LoRA: no weight of a layer matches {glob!r}",
                hint="`odtc check MODEL --all` lists the parameters' names",
            )
    return [
        layer for layer in layers if any(fnmatchcase(layer.weight, glob) for glob in lora.globs)
    ]


def _check(graph: Graph, layer: Layer, rank: int, selection: Selection) -> None:
    """Checks that one layer can be adapted."""
    shape = _weight(graph, layer).shape
    reason = refusal(layer, len(shape))
    if reason:
        raise UnsupportedError(
            f"LoRA: no adapter for {layer}: {reason}", hint="narrow the targets, such as *.query*"
        )
    rows, columns = shape[0], math.prod(shape[1:])
    if rank > min(rows, columns):
        raise UsageError(
            f"LoRA: rank {rank} is above {min(rows, columns)}, the rank that the weight can have",
            where=f"{layer}, {rows} by {columns}",
            hint="lower the rank, or narrow the targets",
        )
    if layer.weight in selection.trained:
        raise UsageError(
            f"{layer.weight!r} is to be trained and has an adapter: an adapted weight is frozen",
            hint="narrow the targets, or what is trained in addition to the adapters",
        )


def _without_tied(graph: Graph, layers: Sequence[Layer]) -> Sequence[Layer]:
    """The layers but for those of weights that are read in several ways; all where none is left."""
    ways: dict[str, set[_Way]] = {}
    for layer in layers:
        ways.setdefault(layer.weight, set()).add(_way(layer))
    tied = {weight: several for weight, several in ways.items() if len(several) > 1}
    if len(tied) == len(ways):
        return layers
    for weight in tied:
        readers = dict.fromkeys(layer.op_type for layer in layers if layer.weight == weight)
        graph.notes.append(
            f"LoRA: no adapter for {weight!r}: it is read in several ways ({', '.join(readers)}), "
            "as an embedding that is also the head"
        )
    return [layer for layer in layers if layer.weight not in tied]


def _way(layer: Layer) -> _Way:
    """How a layer reads its weight."""
    return FORMS.get(layer.op_type), layer.transposed


def _check_shared(layers: Sequence[Layer]) -> None:
    """Checks that layers that share a weight read it in the same way."""
    first: dict[str, Layer] = {}
    for layer in layers:
        other = first.setdefault(layer.weight, layer)
        if _way(layer) != _way(other):
            raise UnsupportedError(
                f"LoRA: no adapter for {layer}: {other} reads the same weight in another way",
                hint="narrow the targets, such as *.query*",
            )


def _tell_of_attention(graph: Graph, layers: Sequence[Layer]) -> None:
    """Notes the adapters that no folder of PEFT can hold."""
    weights = (*graph.parameters, *graph.constants)
    for weight in read_by_attention((layer.weight for layer in layers), weights):
        graph.notes.append(
            f"LoRA: {weight!r} gets an adapter that export_peft cannot write: "
            "nn.MultiheadAttention reads that weight itself, where PEFT applies no adapter; a "
            "model with the adapters merged, and a file of adapters alone, have it"
        )


def _add_parameters(graph: Graph, layer: Layer, lora: LoRA, rng: np.random.Generator) -> Adapter:
    form, shape = FORMS[layer.op_type], _weight(graph, layer).shape
    # Output channels first, as a convolution and a transposed matrix have them.
    transposed = layer.transposed and len(shape) == 2
    channels_first = shape if transposed or len(shape) > 2 else shape[::-1]
    down_shape, up_shape = form.shapes(channels_first, lora.rank_of(layer.weight))
    stem = plain_name(layer.weight).removesuffix(".weight")
    down, up = (stem + suffix for suffix in form.suffixes)
    magnitude = stem + _MAGNITUDE if lora.dora else ""
    for name in (down, up, magnitude):
        if name in graph.shapes:
            raise UsageError(f"LoRA: the model has a tensor {name!r} already", where=str(layer))
    bound = 1.0 / math.sqrt(math.prod(channels_first[1:]))
    first, second = rng.uniform(-bound, bound, down_shape), np.zeros(up_shape)
    if form.zero_first:
        first, second = np.zeros(down_shape), rng.standard_normal(up_shape)
    graph.parameters[down] = first.astype(np.float32)
    graph.parameters[up] = second.astype(np.float32)
    if magnitude:
        # Of integers the norms are not known yet: `set_magnitudes`.
        graph.parameters[magnitude] = norms_of(_weight(graph, layer), transposed=transposed)
    dropout = 0.0 if form.zero_first else lora.dropout
    scale = lora.scale_of(layer.weight)
    return Adapter(layer.weight, down, up, scale, transposed, dropout, magnitude)


def _weight(graph: Graph, layer: Layer) -> np.ndarray:
    """A layer's weight: a parameter, or the integers that it is quantised to."""
    found = graph.parameters.get(layer.weight)
    return graph.constants[layer.weight] if found is None else found
