"""Modules that compute in a coarse type on the way to an output of a finer one."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper
from torch import Tensor, nn

import odtc
from odtc.core.errors import UnsupportedError
from odtc.core.onnx_model.placed_weights import PlacedModel
from odtc.torch_export import exporters
from tests.fast import fast_if

KINDS = [torch.bfloat16, torch.float16]


class Coarse(nn.Module):
    """A layer of its own type, and a float32 one after it."""

    def __init__(self, kind: torch.dtype) -> None:
        super().__init__()
        self.a, self.b, self.kind = nn.Linear(6, 8, dtype=kind), nn.Linear(8, 3), kind

    def forward(self, x: Tensor) -> Tensor:
        return self.b(torch.tanh(self.a(x.to(self.kind))).float())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_the_coarsest_type_says_how_far_an_output_may_be_off(
    kind: torch.dtype, seed: int, tmp_path: Path
) -> None:
    torch.manual_seed(seed)
    assert odtc.from_torch(Coarse(kind), torch.randn(4, 6), tmp_path / "model.onnx")


def off_by(part: float) -> Callable[[exporters.Request], PlacedModel]:
    """An exporter whose file adds a part of the largest element to the first output."""

    def exporter(request: exporters.Request) -> PlacedModel:
        placed = exporters.by_torchscript(request)
        model = placed.model
        (result,) = request.module(*request.tensors.values())
        shift = np.float32(part * result.abs().max().item())
        model.graph.initializer.append(numpy_helper.from_array(np.asarray(shift), "shift"))
        output = model.graph.output[0]
        node = next(node for node in model.graph.node if output.name in node.output)
        node.output[:] = ["unshifted"]
        model.graph.node.append(onnx.helper.make_node("Add", ["unshifted", "shift"], [output.name]))
        return placed

    return exporter


@pytest.mark.parametrize(("kind", "part"), [(torch.float32, 5e-3), (torch.float16, 2e-2)])
def test_a_finer_type_is_held_to_less(
    kind: torch.dtype, part: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("odtc.torch_export.export.EXPORTERS", {"careless": off_by(part)})
    torch.manual_seed(0)
    with pytest.raises(UnsupportedError, match="differs from the module's by"):
        odtc.from_torch(Coarse(kind), torch.randn(4, 6), tmp_path / "model.onnx")


@pytest.mark.parametrize("kind", fast_if(lambda kind: kind is torch.bfloat16, KINDS))
def test_a_language_model_is_computed_in_float32(kind: torch.dtype, tmp_path: Path) -> None:
    """The scale of its attention is no power of two, and keeps its digits."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    sizes: dict[str, Any] = {"hidden_size": 64, "intermediate_size": 64, "head_dim": 32}
    heads: dict[str, Any] = {"num_attention_heads": 2, "num_key_value_heads": 2}
    more: dict[str, Any] = {"vocab_size": 50, "num_hidden_layers": 1, "use_cache": False}
    config = LlamaConfig(**sizes, **heads, **more, initializer_range=0.3)
    module: Any = LlamaForCausalLM(config)
    module.to(kind)
    ids = torch.randint(0, 50, (2, 8))
    found = []
    for each in (module, copy.deepcopy(module).float()):
        each.config.dtype = next(each.parameters()).dtype
        path = tmp_path / f"{each.dtype}.onnx"
        odtc.from_torch(each, {"input_ids": ids}, path)
        artifact = odtc.compile(path, batch=2, loss="mse", lora="rank=1")
        with artifact.trainer(threads=1) as trainer:
            found.append(trainer.evaluate({"input_ids": ids.numpy()}))
    np.testing.assert_allclose(*found, rtol=0, atol=1e-6 * np.abs(found[1]).max())


def test_gpt_2_in_bfloat16_is_a_file_of_the_standard(tmp_path: Path) -> None:
    """It splits queries, keys and values, and there are no sequences of bfloat16."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(vocab_size=50, n_embd=8, n_layer=1, n_head=2, n_positions=8)
    config.use_cache = False
    module: Any = GPT2LMHeadModel(config)
    module.to(torch.bfloat16)
    odtc.from_torch(
        module, {"input_ids": torch.zeros(2, 4, dtype=torch.int64)}, tmp_path / "m.onnx"
    )
    model = onnx.load(tmp_path / "m.onnx")
    onnx.checker.check_model(model, full_check=True)
    assert "Split" in {node.op_type for node in model.graph.node}
