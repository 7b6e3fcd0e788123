"""Mixtures of experts of transformers, whose own form no exporter has."""

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch

import odtc
from odtc.torch_export.experts import NOTE, experts_of_each_token
from tests.fast import fast_if


@pytest.mark.parametrize("own", fast_if("grouped_mm".__eq__, ["grouped_mm", "eager"]))
def test_a_mixture_of_experts_is_exported(tmp_path: Path, own: str):
    from transformers import MixtralConfig, MixtralForCausalLM

    torch.manual_seed(0)
    config = MixtralConfig(
        vocab_size=19,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=16,
        num_local_experts=4,
        num_experts_per_tok=2,
        initializer_range=0.3,
        use_cache=False,
    )
    module = MixtralForCausalLM(config)
    module.set_experts_implementation(own)
    ids = torch.arange(10).reshape(2, 5)
    with pytest.warns(UserWarning, match=NOTE):
        odtc.from_torch(module, {"input_ids": ids}, tmp_path / "m.onnx")
    # It is as it was, in its inner models, too.
    assert {part.config._experts_implementation for part in (module, module.model)} == {own}
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    other = (ids.numpy() * 3 + 1) % 19
    (found,) = session.run(None, {"input_ids": other})
    with torch.no_grad():
        wanted = module.eval()(input_ids=torch.from_numpy(other)).logits.numpy()
    np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_what_has_no_experts_is_left_alone():
    with experts_of_each_token(torch.nn.Linear(2, 2)) as said:
        assert said == []
