"""Frozen weights never cost more than trained ones, however a layer reads them."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from torch import nn

import odtc
from benchmarks.models.decoder import DecoderShape, decoder
from tests.families import BATCH, FAMILIES, make
from tests.fast import fast_if
from tests.numeric.layers.exported import Bert, ConvNet, Tokens, exported
from tests.numeric.plans.frozen_costs import (
    LAYERS,
    TRAINABLE,
    cost_of,
    follows_plain,
    layers_of,
    matrices_in,
    model_of,
    plan_of,
    unfolded,
)

# What is trained of each model, in place of all.
PARTS: dict[type[nn.Module], tuple[Any, ...]] = {
    ConvNet: ("head.*", "stem.*", "norm*", "grouped.*"),
    Tokens: ("head.*", "mix.*"),
    Bert: ("head.*", "query.*", "embedding.*", "norm*"),
}
# Layers of a decoder, and what is trained of it.
OF_A_DECODER: dict[str, tuple[int, dict[str, Any]]] = {
    "lora": (1, {"lora": odtc.LoRA(rank=4, targets="*q_proj*|*v_proj*"), "train": []}),
    "a layer": (2, {"train": ["layers.1.*"]}),
}


@pytest.mark.parametrize("form", TRAINABLE)
def test_layers_that_read_frozen_weights_in_a_form(form: str, tmp_path: Path) -> None:
    path = layers_of(TRAINABLE[form], tmp_path / "m.onnx")
    whole, part = (plan_of(path, loss="mse", train=[each]) for each in ("*", "p"))
    assert cost_of(part).is_within(cost_of(whole)), f"{cost_of(part)} against {cost_of(whole)}"
    assert matrices_in(part) in (0, 2 * LAYERS)


@pytest.mark.parametrize("kind", fast_if(lambda kind: kind is ConvNet, PARTS))
def test_models_of_which_a_part_is_trained(kind: type[nn.Module], tmp_path: Path) -> None:
    exported(kind, tmp_path / "m.onnx")
    whole = cost_of(plan_of(tmp_path / "m.onnx"))
    for choice in PARTS[kind]:
        part = cost_of(plan_of(tmp_path / "m.onnx", train=[choice]))
        assert part.is_within(whole), f"{choice}: {part} against {whole}"


@pytest.mark.parametrize("choice", fast_if(lambda choice: choice == "lora", OF_A_DECODER))
def test_decoders_of_which_a_part_is_trained(choice: str, tmp_path: Path) -> None:
    count, trained = OF_A_DECODER[choice]
    sizes = DecoderShape(count, hidden=48, heads=6, shared=2, inner=96, vocabulary=64, length=16)
    onnx.save(unfolded(decoder(sizes)), tmp_path / "m.onnx")
    whole, part = (
        cost_of(plan_of(tmp_path / "m.onnx", batch=2, optimizer="adamw", **options))
        for options in ({}, trained)
    )
    assert part.is_within(whole), f"{part} against {whole}"


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_families_of_which_the_last_layer_is_trained(name: str, tmp_path: Path) -> None:
    path, family = tmp_path / "m.onnx", FAMILIES[name]
    odtc.from_torch(make(name), family.inputs(BATCH), path)
    options = {"batch": BATCH, "loss": family.text, "optimizer": "adamw"}
    whole = cost_of(plan_of(path, **options))
    for still in (False, True):
        options |= {"train": ["last{k=1}"], "freeze_batch_norm": still}
        part = cost_of(plan_of(path, **options))
        assert part.is_within(whole), f"{part} against {whole}"


def test_a_frozen_forward_pass_has_the_kernels_of_a_trained_one(tmp_path: Path) -> None:
    """Activations are parts of normalisations, and those of convolutions, as they are elsewhere."""
    nodes = "".join(
        f"c{n} = Conv <pads = [1, 1, 1, 1]> (x{n}, w{n}) n{n} = BatchNormalization "
        f"(c{n}, g{n}, b{n}, m{n}, v{n}) x{n + 1} = Relu (n{n}) "
        for n in range(2)
    )
    nodes += "e = GlobalAveragePool (x2) y = Conv (e, head)"
    shapes = {f"w{n}": (4, 4, 3, 3) for n in range(2)} | {"head": (4, 4, 1, 1)}
    shapes |= {f"{key}{n}": (4,) for n in range(2) for key in "gbmv"}
    weights = {name: np.ones(shape, np.float32) for name, shape in shapes.items()}
    ends = "(float[4, 4, 8, 8] x0) => (float[4, 4, 1, 1] y)"
    onnx.save(model_of(ends, nodes, weights, opset=17), tmp_path / "m.onnx")
    whole, part = (
        plan_of(tmp_path / "m.onnx", loss="mse", train=[each]).calls for each in ("*", "head")
    )
    length = whole.index("subtract")
    assert part[:length] == whole[:length]


@pytest.mark.parametrize("form", fast_if(lambda form: form == "joined, transposed", TRAINABLE))
def test_losses_and_gradients_behind_frozen_weights(form: str, tmp_path: Path) -> None:
    follows_plain(layers_of(TRAINABLE[form], tmp_path / "m.onnx"))
