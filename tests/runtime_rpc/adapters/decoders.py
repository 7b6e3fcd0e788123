"""A tiny decoder of transformers of each kind that llama.cpp knows, all of its modules adapted."""

from typing import Any

from torch import nn

from odtc.runtime_rpc.adapters.llama_cpp_names import KINDS
from tests.runtime_rpc.adapters.language_models import SIZES, filled

# Heads of 8, so that an order of rows that is wrong shows.
_NEW: dict[str, Any] = {
    **SIZES,
    "hidden_size": 32,
    "head_dim": 8,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
_OLD: dict[str, Any] = {
    "vocab_size": SIZES["vocab_size"],
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "max_position_embeddings": 16,
    "use_cache": False,
    "resid_pdrop": 0.0,
    "embd_pdrop": 0.0,
    "attn_pdrop": 0.0,
}
_HALF_TURNED = {
    **_NEW,
    "rope_parameters": {
        "rope_type": "default",
        "rope_theta": 10000.0,
        "partial_rotary_factor": 0.5,
    },
}
_EXPERTS = {
    **_NEW,
    "num_experts": 4,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 8,
}
_MULTIPLIERS = {
    **_NEW,
    "embedding_multiplier": 2.0,
    "logits_scaling": 1.5,
    "residual_multiplier": 0.7,
    "attention_multiplier": 0.3,
}
_GEMMA = {**_NEW, "sliding_window": 4, "query_pre_attn_scalar": 8}
DECODERS: dict[str, dict[str, Any]] = {
    "arcee": _NEW,
    "bloom": _OLD,
    "cohere": {**_NEW, "logit_scale": 1.0},
    "cohere2": {**_NEW, "logit_scale": 1.0, "sliding_window": 4},
    "ernie4_5": _NEW,
    "exaone4": {**_NEW, "sliding_window": None, "layer_types": ["full_attention"]},
    "gemma": _NEW,
    "gemma2": _GEMMA,
    "gemma3_text": _GEMMA,
    "glm": _HALF_TURNED,
    "glm4": _HALF_TURNED,
    "gpt2": _OLD,
    "gpt_bigcode": _OLD,
    "gpt_neox": {**_OLD, "intermediate_size": 24, "rotary_pct": 0.5},
    "granite": _MULTIPLIERS,
    "granitemoe": {**_MULTIPLIERS, "num_local_experts": 4, "num_experts_per_tok": 2},
    "granitemoehybrid": {
        **_MULTIPLIERS,
        "layer_types": ["attention"],
        "num_local_experts": 0,
        "num_experts_per_tok": 0,
        "shared_intermediate_size": 24,
        "position_embedding_type": "rope",
        "mamba_n_heads": 4,
        "mamba_d_head": 16,
    },
    "hunyuan_v1_dense": _NEW,
    "lfm2": {
        **_NEW,
        "num_hidden_layers": 2,
        "layer_types": ["conv", "full_attention"],
        "block_auto_adjust_ff_dim": False,
    },
    "llama": _NEW,
    "mistral": {**_NEW, "sliding_window": None},
    "nemotron": _HALF_TURNED,
    "olmo": _NEW,
    "olmo2": _NEW,
    "olmo3": {**_NEW, "sliding_window": 4},
    "olmoe": {**_EXPERTS, "num_key_value_heads": 4},
    "phi": _HALF_TURNED,
    "phi3": _NEW,
    "qwen2": _NEW,
    "qwen2_moe": _EXPERTS,
    "qwen3": {**_NEW, "tie_word_embeddings": True},
    "qwen3_moe": {**_EXPERTS, "norm_topk_prob": True},
    "seed_oss": {**_NEW, "attention_dropout": 0.0, "residual_dropout": 0.0},
    "smollm3": _NEW,
    "stablelm": _HALF_TURNED,
    "starcoder2": _NEW,
}


def decoder(kind: str) -> nn.Module:
    """A model of a kind, with one layer, and weights that make its attention uneven."""
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.for_model(kind, **DECODERS[kind])
    return filled(lambda: AutoModelForCausalLM.from_config(config), spread=0.15)


def globs(module: nn.Module) -> str:
    """All modules that have a tensor in llama.cpp, as odtc takes targets."""
    config: Any = module.config
    kind = KINDS[config.model_type]
    ends = [] if config.tie_word_embeddings else [kind.embedding, "lm_head"]
    names = [*ends, *(f"{kind.layer}.*.{name}" for name in kind.modules)]
    return "|".join(f"{name}.weight" for name in names)
