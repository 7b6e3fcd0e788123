"""Adapters in GGUF: llama.cpp loads them beside its model, and says what the step does."""

import json
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from torch import nn

import odtc
from odtc.core.errors import ModelError, UnsupportedError
from tests.fast import fast_if
from tests.runtime_rpc.adapters.conftest import StepOf
from tests.runtime_rpc.adapters.language_models import BATCH, LANGUAGES, tokens
from tests.runtime_rpc.adapters.llama_cpp import next_word, write_model
from tests.runtime_rpc.adapters.sides import ALPHA, RANK, adapted


@pytest.mark.parametrize("name", fast_if(lambda name: name in ("gpt2", "llama"), LANGUAGES))
@pytest.mark.filterwarnings("ignore:fan_in_fan_out")
def test_llama_cpp_says_what_the_step_does(name: str, tmp_path: Path, step_of: StepOf) -> None:
    module, artifact = step_of(name)
    adapted(name, module).save_pretrained(tmp_path / "theirs")
    trainer = artifact.trainer(threads=1)
    trainer.load_adapters(tmp_path / "theirs")
    module.config.save_pretrained(tmp_path)
    trainer.export_gguf(tmp_path / "adapters.gguf", tmp_path)
    write_model(tmp_path / "model.gguf", module)

    ids = tokens(0)[0]
    words = torch.log_softmax(torch.tensor(trainer.evaluate(ids.numpy())[0, -1]), -1).numpy()
    plain = next_word(tmp_path / "model.gguf", ids[0])
    found = next_word(tmp_path / "model.gguf", ids[0], tmp_path / "adapters.gguf")
    assert np.abs(plain - words).max() > 0.05
    # llama.cpp computes GELU, and products of attention, in half precision.
    np.testing.assert_allclose(found, words, atol=5e-3)


def test_what_the_file_holds(tmp_path: Path, step_of: StepOf) -> None:
    module, artifact = step_of("llama")
    trainer = artifact.trainer(threads=1)
    module.config.save_pretrained(tmp_path)
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


WRONG = {
    "no configuration of a model .FileNotFoundError": (ModelError, None),
    "no configuration of a model .KeyError: 'model_type'": (ModelError, {}),
    "num_attention_heads is None": (ModelError, {"model_type": "llama"}),
    "num_key_value_heads is True": (
        *(ModelError,),
        {"model_type": "llama", "num_attention_heads": 4, "num_key_value_heads": True},
    ),
    "models of the kind 'bert' have no names in llama.cpp that odtc knows": (
        *(UnsupportedError,),
        {"model_type": "bert", "num_attention_heads": 4},
    ),
    "16 rows, which are no 5 heads of two halves": (
        *(UnsupportedError,),
        {"model_type": "llama", "num_attention_heads": 5},
    ),
    "has no tensor for the adapter of 'model.embed_tokens' in its gpt2 models": (
        *(UnsupportedError,),
        {"model_type": "gpt2", "n_head": 4},
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


def test_what_is_trained_beside_the_adapters_is_refused(tmp_path: Path) -> None:
    odtc.from_torch(nn.Linear(4, 4), torch.zeros(2, 4), tmp_path / "m.onnx")
    artifact = odtc.compile(
        tmp_path / "m.onnx", batch=BATCH, loss="mse", train="bias", lora="rank=2"
    )
    path = config(tmp_path, model_type="llama", num_attention_heads=2)
    with pytest.raises(UnsupportedError, match=r"does not hold what was trained beside them: bias"):
        artifact.trainer().export_gguf(tmp_path / "adapters.gguf", path)
