"""Adapters in GGUF: llama.cpp loads them beside its model, and says what the step does."""

import json
import re
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from torch import nn

import odtc
from odtc.core.errors import ModelError, UnsupportedError
from odtc.runtime_rpc.adapters.base_model import read_base_model
from odtc.runtime_rpc.adapters.llama_cpp_names import KINDS
from tests.fast import fast_if
from tests.runtime_rpc.adapters.conftest import StepOf
from tests.runtime_rpc.adapters.decoders import DECODERS, decoder, globs
from tests.runtime_rpc.adapters.language_models import BATCH, tokens
from tests.runtime_rpc.adapters.llama_cpp import next_word, write_model
from tests.runtime_rpc.adapters.sides import ALPHA, LOSS, RANK, compiled

# llama.cpp looks GELU up in a table of half precision.
HALF_GELU = (
    *("bloom", "gemma", "gemma2", "gemma3_text", "gpt2", "gpt_bigcode", "gpt_neox", "phi"),
    "starcoder2",
)


def save_config(folder: Path, module: nn.Module) -> None:
    found: Any = module.config
    found.save_pretrained(folder)


@pytest.mark.parametrize(
    "kind", fast_if(lambda kind: kind in ("gpt2", "granitemoehybrid"), DECODERS)
)
def test_llama_cpp_says_what_the_step_does(kind: str, tmp_path: Path) -> None:
    module = decoder(kind)
    save_config(tmp_path, module)
    write_model(tmp_path / "model.gguf", module)
    odtc.from_torch(module, {"input_ids": tokens(0)[0]}, tmp_path / "m.onnx")
    lora = odtc.LoRA(rank=RANK, alpha=ALPHA, targets=globs(module))
    trainer = odtc.compile(
        tmp_path / "m.onnx", batch=BATCH, optimizer="adamw", loss=LOSS, lora=lora
    ).trainer(threads=1)
    for seed in range(3):
        ids, labels = tokens(seed)
        trainer.step(ids.numpy(), labels.numpy(), lr=0.1)
    trainer.export_gguf(tmp_path / "adapters.gguf", tmp_path)

    ids = tokens(0)[0]
    words = torch.log_softmax(torch.tensor(trainer.evaluate(ids.numpy())[0, -1]), -1).numpy()
    plain = next_word(tmp_path / "model.gguf", ids[0])
    found = next_word(tmp_path / "model.gguf", ids[0], tmp_path / "adapters.gguf")
    assert np.abs(plain - words).max() > 0.5
    np.testing.assert_allclose(found, words, atol=5e-3 if kind in HALF_GELU else 1e-5)
    held = {tensor.name for tensor in gguf.GGUFReader(tmp_path / "adapters.gguf").tensors}
    tensors = {name.rpartition(".weight")[0].split(".", 2)[-1] for name in held}
    ends = set() if "output" not in tensors else {"output", "token_embd"}
    assert tensors == ends.union(*(names.split() for names in KINDS[kind].modules.values()))


def test_each_kind_is_compared_with_llama_cpp() -> None:
    assert list(DECODERS) == list(KINDS)


def test_the_page_names_each_kind() -> None:
    page = Path(__file__).parents[3] / "docs" / "howto" / "language_models.md"
    rows = re.findall(
        r"^\| .+ \| (`.+`) \|$", page.read_text().partition("## Into llama.cpp")[2], re.M
    )
    assert sorted(re.findall(r"`(\w+)`", " ".join(rows))) == sorted({"model_type", *KINDS})


def test_what_the_file_holds(tmp_path: Path, step_of: StepOf) -> None:
    module, artifact = step_of("llama")
    trainer = artifact.trainer(threads=1)
    save_config(tmp_path, module)
    for name in ("one.gguf", "two.gguf"):
        trainer.export_gguf(tmp_path / name, tmp_path / "config.json")
    assert (tmp_path / "one.gguf").read_bytes() == (tmp_path / "two.gguf").read_bytes()
    reader = gguf.GGUFReader(tmp_path / "one.gguf")
    keys = {name: field.contents() for name, field in reader.fields.items() if "." in name}
    keys = {name: value for name, value in keys.items() if not name.startswith("GGUF.")}
    assert keys == {
        "general.architecture": "llama",
        "general.type": "adapter",
        "adapter.type": "lora",
        "adapter.lora.alpha": ALPHA,
    }
    found = {tensor.name: tensor.data for tensor in reader.tensors}
    assert {name.rpartition(".")[0] for name in found} == {
        f"{name}.weight"
        for name in ("token_embd", "blk.0.attn_q", "blk.0.attn_k", "blk.0.ffn_down", "output")
    }
    held = trainer.parameters()["model.layers.0.mlp.down_proj.lora_A.weight"]
    np.testing.assert_array_equal(found["blk.0.ffn_down.weight.lora_a"], held.T)
    assert found["token_embd.weight.lora_a"].shape == (48, RANK)


def config(folder: Path, **fields: object) -> Path:
    path = folder / "config.json"
    path.write_text(json.dumps(fields))
    return path


LLAMA = {
    "model_type": "llama",
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
HYBRID = {**LLAMA, "model_type": "granitemoehybrid"}
# What is wrong with a configuration for this model.
WRONG: dict[str, tuple[type[Exception], dict[str, object] | None]] = {
    "no configuration of a model .FileNotFoundError": (ModelError, None),
    "no configuration of a model .KeyError: 'model_type'": (ModelError, {}),
    "num_attention_heads is None": (ModelError, {"model_type": "llama"}),
    "hidden_size is None": (ModelError, {"model_type": "llama", "num_attention_heads": 4}),
    "no configuration of a model .TypeError: 'int' object": (
        *(ModelError,),
        {**HYBRID, "layer_types": 4},
    ),
    "num_key_value_heads is True": (ModelError, {**LLAMA, "num_key_value_heads": True}),
    "models of the kind 'bert' have no names in llama.cpp that odtc knows": (
        *(UnsupportedError,),
        {**LLAMA, "model_type": "bert"},
    ),
    "'granitemoehybrid' odtc has names in llama.cpp only for those with attention in every layer": (
        *(UnsupportedError,),
        {**HYBRID, "layer_types": ["attention", "mamba"]},
    ),
    "in every layer, and without experts": (
        *(UnsupportedError,),
        {**HYBRID, "layer_types": ["attention"], "num_local_experts": 8},
    ),
    "num_attention_heads 5 with heads of 3, so 15, and in the step .*q_proj has 16 outputs": (
        *(ModelError,),
        {**LLAMA, "num_attention_heads": 5},
    ),
    "num_attention_heads 8 with heads of 4, so 32, and in the step .*q_proj has 16 outputs": (
        *(ModelError,),
        {**LLAMA, "num_attention_heads": 8, "head_dim": 4},
    ),
    "num_key_value_heads 2 with heads of 2, so 4, and in the step .*k_proj has 8 outputs": (
        *(ModelError,),
        {**LLAMA, "num_attention_heads": 8},
    ),
    "num_key_value_heads 4 with heads of 4, so 16, and in the step .*k_proj has 8 outputs": (
        *(ModelError,),
        {**LLAMA, "num_key_value_heads": 4},
    ),
    "hidden_size 32, and in the step model.embed_tokens has 16 outputs": (
        *(ModelError,),
        {**LLAMA, "hidden_size": 32, "head_dim": 4},
    ),
    "16 rows, which cannot form 16 heads of 2 parts": (
        *(UnsupportedError,),
        {**LLAMA, "num_attention_heads": 16, "num_key_value_heads": 8},
    ),
    "has no tensor for the adapter of 'model.embed_tokens' in its gpt2 models": (
        *(UnsupportedError,),
        {"model_type": "gpt2", "n_head": 4, "n_embd": 16, "n_layer": 1},
    ),
}


@pytest.mark.parametrize("reason", WRONG)
def test_configurations_that_do_not_fit(reason: str, tmp_path: Path, step_of: StepOf) -> None:
    trainer = step_of("llama")[1].trainer(threads=1)
    error, fields = WRONG[reason]
    if fields is not None:
        config(tmp_path, **fields)
    with pytest.raises(error, match=reason):
        trainer.export_gguf(tmp_path / "adapters.gguf", tmp_path)
    assert not (tmp_path / "adapters.gguf").exists()


@pytest.mark.parametrize("fields", [{}, {"num_key_value_heads": None}])
def test_without_a_number_keys_have_the_heads_of_queries(
    fields: dict[str, None], tmp_path: Path
) -> None:
    given = {name: value for name, value in LLAMA.items() if name != "num_key_value_heads"}
    path = config(tmp_path, **given, **fields)
    assert read_base_model(path).key_heads == 4


@pytest.mark.parametrize(
    "quantize", fast_if(lambda kind: kind is None, [None, "int8", "int4{block=16}"])
)
def test_heads_where_queries_alone_have_adapters(quantize: str | None, tmp_path: Path) -> None:
    """Of any number of heads the queries of all have as many rows as the model is wide."""
    module, artifact = compiled(
        "llama", tmp_path, lora="rank=2,targets=*q_proj*", quantize=quantize
    )
    trainer = artifact.trainer(threads=1)
    save_config(tmp_path, module)
    trainer.export_gguf(tmp_path / "right.gguf", tmp_path)
    config(tmp_path, **{**LLAMA, "num_attention_heads": 8})
    if quantize:
        # What the codes' shapes mean is not asked.
        trainer.export_gguf(tmp_path / "unknown.gguf", tmp_path)
    else:
        with pytest.raises(ModelError, match=r"2 with heads of 2, so 4, .*k_proj is \[8, 16\]"):
            trainer.export_gguf(tmp_path / "wrong.gguf", tmp_path)


def test_a_layer_beyond_those_of_the_configuration(tmp_path: Path) -> None:
    base = read_base_model(config(tmp_path, **LLAMA))
    base.check("blk.0.ffn_down.weight", "model.layers.0.mlp.down_proj", (16, 24))
    with pytest.raises(ModelError, match=r"num_hidden_layers 1, .* there is model\.la"):
        base.check("blk.1.ffn_down.weight", "model.layers.1.mlp.down_proj", (16, 24))


def test_what_is_trained_beside_the_adapters_is_refused(tmp_path: Path) -> None:
    odtc.from_torch(nn.Linear(4, 4), torch.zeros(2, 4), tmp_path / "m.onnx")
    artifact = odtc.compile(
        tmp_path / "m.onnx", batch=BATCH, loss="mse", train="bias", lora="rank=2"
    )
    path = config(tmp_path, **LLAMA)
    with pytest.raises(UnsupportedError, match=r"what was trained in addition to them: bias"):
        artifact.trainer().export_gguf(tmp_path / "adapters.gguf", path)
