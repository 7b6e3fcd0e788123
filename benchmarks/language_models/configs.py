"""Language models of real sizes, how their weights are drawn, and what of them is adapted."""

from collections.abc import Mapping
from typing import Any

# Matrices are whole numbers of it, from -7 to 7: as far apart as initial weights usually are.
UNIT = 2.0**-8
RANK, ALPHA = 8, 16
TARGETS = ("q_proj", "v_proj")
_LLAMA: Mapping[str, Any] = {
    "model_type": "llama",
    "hidden_act": "silu",
    "tie_word_embeddings": True,
}

# Fields of `config.json`, as the models are published.
CONFIGS: Mapping[str, Mapping[str, Any]] = {
    "smollm2_135m": _LLAMA
    | {
        "vocab_size": 49152,
        "hidden_size": 576,
        "intermediate_size": 1536,
        "num_hidden_layers": 30,
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
        "max_position_embeddings": 8192,
        "rope_theta": 100000.0,
    },
    "gemma3_270m": {
        "model_type": "gemma3_text",
        "vocab_size": 262144,
        "hidden_size": 640,
        "intermediate_size": 2048,
        "num_hidden_layers": 18,
        "num_attention_heads": 4,
        "num_key_value_heads": 1,
        "head_dim": 256,
        "query_pre_attn_scalar": 256,
        "sliding_window": 512,
        "max_position_embeddings": 32768,
    },
    "qwen3_0.6b": {
        "model_type": "qwen3",
        "vocab_size": 151936,
        "hidden_size": 1024,
        "intermediate_size": 3072,
        "num_hidden_layers": 28,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "max_position_embeddings": 40960,
        "rope_theta": 1000000.0,
        "tie_word_embeddings": True,
    },
    "llama3.2_1b": _LLAMA
    | {
        "vocab_size": 128256,
        "hidden_size": 2048,
        "intermediate_size": 8192,
        "num_hidden_layers": 16,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 64,
        "max_position_embeddings": 131072,
        "rope_theta": 500000.0,
        "rope_scaling": {
            "rope_type": "llama3",
            "factor": 32.0,
            "high_freq_factor": 4.0,
            "low_freq_factor": 1.0,
            "original_max_position_embeddings": 8192,
        },
    },
    # Of no published model: to see that all of this works.
    "tiny": _LLAMA
    | {
        "vocab_size": 256,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 512,
    },
}
# What is compared where no models are named.
PUBLISHED = tuple(name for name in CONFIGS if name != "tiny")
