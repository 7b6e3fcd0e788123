"""Tiny models as llama.cpp has them, and what it says of the word that comes next."""

from pathlib import Path

import gguf
import numpy as np
import torch
import xllamacpp
from torch import nn

from tests.runtime_rpc.adapters.language_models import WORDS

_PARTS = {
    "input_layernorm": "attn_norm",
    "ln_1": "attn_norm",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
    "ln_2": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "attn.c_attn": "attn_qkv",
    "attn.c_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.c_fc": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "mlp.c_proj": "ffn_down",
}
_GEMMA = {
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}
_WHOLE = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "transformer.wte": "token_embd",
    "transformer.wpe": "position_embd",
    "transformer.ln_f": "output_norm",
}


def write_model(path: Path, module: nn.Module) -> None:
    """Writes a module of transformers as llama.cpp's own converter would."""
    config = module.config
    kind = {"gemma3_text": "gemma3"}.get(config.model_type, config.model_type)
    writer = gguf.GGUFWriter(path, kind)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_head_count(config.num_attention_heads)
    if kind == "gpt2":
        writer.add_feed_forward_length(4 * config.hidden_size)
        writer.add_layer_norm_eps(config.layer_norm_epsilon)
    else:
        writer.add_feed_forward_length(config.intermediate_size)
        writer.add_head_count_kv(config.num_key_value_heads)
        writer.add_key_length(config.head_dim)
        writer.add_value_length(config.head_dim)
        writer.add_rope_dimension_count(config.head_dim)
        writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    if kind == "gemma3":
        writer.add_sliding_window(config.sliding_window)
    writer.add_vocab_size(WORDS)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([f"w{number}" for number in range(WORDS)])
    writer.add_token_types([int(gguf.TokenType.NORMAL)] * WORDS)
    writer.add_token_merges(["w 1"])
    writer.add_eos_token_id(0)
    writer.add_add_bos_token(False)
    parts = _PARTS | (_GEMMA if kind == "gemma3" else {})
    ties = {id(module.get_input_embeddings().weight)}
    for name, value in module.named_parameters():
        if name == "lm_head.weight" and id(value) in ties:
            continue
        array = value.detach().numpy()
        owner, _, last = name.rpartition(".")
        if kind == "gemma3" and owner.endswith("norm"):
            array = array + 1
        if "_proj" in owner and kind == "llama" and owner[-6] in "qk":
            heads = array.shape[0] // config.head_dim
            array = array.reshape(heads, 2, -1, array.shape[1]).swapaxes(1, 2).reshape(array.shape)
        if kind == "gpt2" and ".c_" in name and last == "weight":
            array = array.T
        writer.add_tensor(_name(owner, parts) + f".{last}", np.ascontiguousarray(array))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _name(owner: str, parts: dict[str, str]) -> str:
    if owner in _WHOLE:
        return _WHOLE[owner]
    _, _, number, part = owner.split(".", 3)
    return f"blk.{number}.{parts[part]}"


def next_word(model: Path, ids: torch.Tensor, adapters: Path | None = None) -> np.ndarray:
    """The logarithms of the probabilities of all words after some, by llama.cpp."""
    params = xllamacpp.CommonParams()
    params.model.path = str(model)
    params.n_ctx, params.n_batch, params.warmup = 64, 64, False
    params.cache_type_k = params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
    params.cpuparams.n_threads = 1
    if adapters:
        params.lora_adapters = [xllamacpp.CommonAdapterLoraInfo(str(adapters), 1.0)]
    server = xllamacpp.Server(params)
    answer = server.handle_completions(
        {
            "prompt": ids.tolist(),
            "n_predict": 1,
            "logprobs": WORDS,
            "temperature": 1.0,
            "samplers": [],
            "cache_prompt": False,
        }
    )
    (step,) = answer["choices"][0]["logprobs"]["content"]
    found = np.full(WORDS, -np.inf)
    for each in step["top_logprobs"]:
        found[each["id"]] = each["logprob"]
    return found
