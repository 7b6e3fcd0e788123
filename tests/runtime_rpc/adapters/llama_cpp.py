"""Tiny models as llama.cpp has them, and what it says of the word that comes next.

What is written follows llama.cpp's own converter; names of tensors are those of its package `gguf`.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
import xllamacpp
from torch import nn

from tests.runtime_rpc.adapters.language_models import WORDS

_ARCHITECTURES = {
    "cohere": "command-r",
    "gemma3_text": "gemma3",
    "glm": "chatglm",
    "gpt_bigcode": "starcoder",
    "gpt_neox": "gptneox",
    "granitemoehybrid": "granite",
    "hunyuan_v1_dense": "hunyuan-dense",
    "mistral": "llama",
    "olmo3": "olmo2",
    "phi": "phi2",
    "qwen2_moe": "qwen2moe",
    "qwen3_moe": "qwen3moe",
}
# What is written of a field of a configuration.
_FIELDS = {
    "attention_multiplier": ("attention_scale",),
    "attn_logit_softcapping": ("attn_logit_softcapping",),
    "embedding_multiplier": ("embedding_scale",),
    "final_logit_softcapping": ("final_logit_softcapping",),
    "head_dim": ("key_length", "value_length"),
    "hidden_size": ("embedding_length",),
    "layer_norm_eps": ("layer_norm_eps",),
    "layer_norm_epsilon": ("layer_norm_eps",),
    "logit_scale": ("logit_scale",),
    "logits_scaling": ("logit_scale",),
    "max_position_embeddings": ("context_length",),
    "moe_intermediate_size": ("expert_feed_forward_length",),
    "norm_eps": ("layer_norm_eps",),
    "norm_epsilon": ("layer_norm_eps",),
    "num_attention_heads": ("head_count",),
    "num_experts": ("expert_count",),
    "num_experts_per_tok": ("expert_used_count",),
    "num_hidden_layers": ("block_count",),
    "num_key_value_heads": ("head_count_kv",),
    "num_local_experts": ("expert_count",),
    "residual_multiplier": ("residual_scale",),
    "rms_norm_eps": ("layer_norm_rms_eps",),
    "shared_expert_intermediate_size": ("expert_shared_feed_forward_length",),
    "sliding_window": ("sliding_window",),
    "use_parallel_residual": ("parallel_residual",),
}
_ENDS = (".weight", ".bias")
# Parts of names that gguf does not know, as it knows them.
_KNOWN_AS = {
    "block_sparse_moe.experts": "mlp.experts",
    "block_sparse_moe.router": "mlp.gate",
    "shared_mlp.output_linear": "mlp.down_proj",
    "transformer.": "",
}
# What no field says.
_FIXED: dict[str, dict[str, Any]] = {
    "gpt_bigcode": {"head_count_kv": 1},
    "lfm2": {"head_count_kv": [0, 2], "shortconv_l_cache": 3, "layer_norm_rms_eps": 1e-5},
    "olmo": {"layer_norm_eps": 1e-5},
    "olmo3": {"sliding_window_pattern": [True]},
    "phi3": {"sliding_window": 0, "rope_scaling_orig_ctx_len": 4096},
}


def _side_by_side(array: np.ndarray, config: Any) -> np.ndarray:
    """The halves of each head, place by place."""
    rows = array.reshape(array.shape[0] // config.head_dim, 2, -1, *array.shape[1:])
    return rows.swapaxes(1, 2).reshape(array.shape)


def _by_part(array: np.ndarray, config: Any) -> np.ndarray:
    """All queries, all keys, all values, in place of each head's."""
    rows = array.reshape(config.num_attention_heads, 3, -1, *array.shape[1:])
    return rows.swapaxes(0, 1).reshape(array.shape)


# Parameters that are written otherwise: of which kinds, which, and how.
_CHANGES: tuple[tuple[set[str], str, Callable[[np.ndarray, Any], np.ndarray]], ...] = (
    (
        {"gemma", "gemma2", "gemma3_text", "nemotron"},
        r"norm\.weight",
        lambda array, _: array + 1,
    ),
    (
        {
            *("arcee", "granite", "granitemoe", "granitemoehybrid", "llama", "mistral", "olmo"),
            "smollm3",
        },
        r"[qk]_proj\.\w+",
        _side_by_side,
    ),
    ({"bloom", "gpt_neox"}, r"query_key_value\.\w+", _by_part),
    ({"lfm2"}, r"conv\.conv\.weight", lambda array, _: array[:, 0]),
    ({"gpt2"}, r"c_\w+\.weight", lambda array, _: array.T),
)


def write_model(path: Path, module: nn.Module) -> None:
    """Writes a module of transformers as llama.cpp's own converter would."""
    config: Any = module.config
    writer = gguf.GGUFWriter(path, _architecture(config))
    for key, value in _hyperparameters(config).items():
        getattr(writer, f"add_{key}")(value)
    writer.add_vocab_size(WORDS)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([f"w{number}" for number in range(WORDS)])
    writer.add_token_types([int(gguf.TokenType.NORMAL)] * WORDS)
    writer.add_token_merges(["w 1"])
    writer.add_eos_token_id(0)
    writer.add_add_bos_token(False)
    for name, array in _tensors(module):
        writer.add_tensor(name, np.ascontiguousarray(array))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _architecture(config: Any) -> str:
    kind: str = config.model_type
    return _ARCHITECTURES.get(kind, kind)


def _hyperparameters(config: Any) -> dict[str, Any]:
    inner = getattr(config, "intermediate_size", None) or 4 * config.hidden_size
    found: dict[str, Any] = {"feed_forward_length": inner}
    for field, keys in _FIELDS.items():
        value = getattr(config, field, None)
        found |= {} if value is None else dict.fromkeys(keys, value)
    ropes = getattr(config, "rope_parameters", None) or {}
    if rope := ropes.get("full_attention", ropes):
        head = getattr(config, "head_dim", config.hidden_size // config.num_attention_heads)
        found["rope_dimension_count"] = int(head * rope.get("partial_rotary_factor", 1))
        found["rope_freq_base"] = rope["rope_theta"]
    return found | _FIXED.get(config.model_type, {})


def _tensors(module: nn.Module) -> Iterator[tuple[str, np.ndarray]]:
    config: Any = module.config
    kinds = {name: kind for kind, name in gguf.MODEL_ARCH_NAMES.items()}
    names = gguf.get_tensor_name_map(kinds[_architecture(config)], config.num_hidden_layers)
    for name, parameter in module.named_parameters():
        array = parameter.detach().numpy()
        for those, pattern, change in _CHANGES:
            if config.model_type in those and re.search(rf"{pattern}$", name):
                array = change(array, config)
        for part, value in _parts(name, array):
            known = part
            for here, there in _KNOWN_AS.items():
                known = known.replace(here, there)
            found = names.get_name(part, _ENDS) or names.get_name(known, _ENDS)
            assert found, part
            yield found, value


def _parts(name: str, array: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """A parameter, or the weights that stand for it in llama.cpp, where two are in one."""
    owner, _, which = name.removesuffix(".weight").rpartition(".")
    if which == "input_linear" or name.endswith("experts.gate_up_proj"):
        owner = owner.replace("shared_mlp", "mlp")
        gate, up = np.split(array, 2, axis=-2)
        yield from ((f"{owner}.gate_proj.weight", gate), (f"{owner}.up_proj.weight", up))
    else:
        yield (name if name.endswith(_ENDS) else f"{name}.weight"), array


def next_word(model: Path, ids: torch.Tensor, adapters: Path | None = None) -> np.ndarray:
    """The logarithms of the probabilities of all words after some, by llama.cpp."""
    params = xllamacpp.CommonParams()
    params.model.path = str(model)
    params.n_ctx, params.n_batch, params.warmup = 64, 64, False
    params.cache_type_k = params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
    # The other kind computes products of queries and keys in half precision.
    params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
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
