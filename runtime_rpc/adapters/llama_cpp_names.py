"""Modules of language models as llama.cpp names their tensors, by the kind of model.

A kind is what a configuration of Hugging Face says as `model_type`. Of each kind here a tiny model
with adapters of all these modules was seen to say the same in llama.cpp as in a step.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

_ATTENTION: Mapping[str, str] = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
}
_UNGATED: Mapping[str, str] = {
    **_ATTENTION,
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
_DECODER: Mapping[str, str] = {**_UNGATED, "mlp.gate_proj": "ffn_gate"}
_SHARED_EXPERT: Mapping[str, str] = {
    **_ATTENTION,
    "mlp.shared_expert.gate_proj": "ffn_gate_shexp",
    "mlp.shared_expert.up_proj": "ffn_up_shexp",
    "mlp.shared_expert.down_proj": "ffn_down_shexp",
}
_FUSED_MLP: Mapping[str, str] = {
    **_ATTENTION,
    "mlp.gate_up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
_PHI: Mapping[str, str] = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.dense": "attn_output",
    "mlp.fc1": "ffn_up",
    "mlp.fc2": "ffn_down",
}
_PHI3: Mapping[str, str] = {
    "self_attn.qkv_proj": "attn_qkv",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
_GPT2: Mapping[str, str] = {
    "attn.c_attn": "attn_qkv",
    "attn.c_proj": "attn_output",
    "mlp.c_fc": "ffn_up",
    "mlp.c_proj": "ffn_down",
}
_GRANITE_4: Mapping[str, str] = {
    **_ATTENTION,
    "shared_mlp.input_linear": "ffn_gate ffn_up",
    "shared_mlp.output_linear": "ffn_down",
}
_LFM2: Mapping[str, str] = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.out_proj": "attn_output",
    "conv.in_proj": "shortconv.in_proj",
    "conv.out_proj": "shortconv.out_proj",
    "feed_forward.w1": "ffn_gate",
    "feed_forward.w2": "ffn_down",
    "feed_forward.w3": "ffn_up",
}
_STARCODER2: Mapping[str, str] = {**_ATTENTION, "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down"}
_MLP_OF_NEOX: Mapping[str, str] = {"mlp.dense_h_to_4h": "ffn_up", "mlp.dense_4h_to_h": "ffn_down"}
_NEOX: Mapping[str, str] = {
    "attention.query_key_value": "attn_qkv",
    "attention.dense": "attn_output",
    **_MLP_OF_NEOX,
}
_BLOOM: Mapping[str, str] = {
    "self_attention.query_key_value": "attn_qkv",
    "self_attention.dense": "attn_output",
    **_MLP_OF_NEOX,
}


@dataclass(frozen=True)
class Order:
    """How llama.cpp orders the rows of a weight, which here lie as `[heads, parts, places]`.

    Attributes:
        heads: whose heads they are: those of the queries, or of the keys.
        parts: of each head.
        axes: the two that change places.
    """

    heads: Literal["heads", "key_heads"]
    parts: int
    axes: tuple[int, int]


# The two halves of a head that are rotated together lie side by side, place by place.
_TURNED: Mapping[str, Order] = {
    "attn_q": Order("heads", 2, (1, 2)),
    "attn_k": Order("key_heads", 2, (1, 2)),
}
# All heads' queries, then all keys, then all values, in place of each head's three.
_UNMIXED: Mapping[str, Order] = {"attn_qkv": Order("heads", 3, (0, 1))}


@dataclass(frozen=True)
class Kind:
    """A kind of language model.

    Attributes:
        architecture: its name in llama.cpp.
        modules: the tensors of a layer, by module; two share the rows of one between them.
        orders: of rows that llama.cpp has in another order, by tensor of a layer.
        layer: what is before the number of a layer in the names of its modules.
        embedding: the module of the embedding.
        is_plain: whether it is that architecture only with attention in all layers, and no experts.
    """

    architecture: str
    modules: Mapping[str, str] = field(default_factory=lambda: _DECODER)
    orders: Mapping[str, Order] = field(default_factory=dict)
    layer: str = "model.layers"
    embedding: str = "model.embed_tokens"
    is_plain: bool = False

    def tensors(self, module: str) -> Sequence[str]:
        """The tensors of a module's weight; none where llama.cpp has no such module."""
        if module in (self.embedding, "lm_head"):
            return ["output.weight" if module == "lm_head" else "token_embd.weight"]
        found = re.fullmatch(rf"{re.escape(self.layer)}\.(\d+)\.(.+)", module)
        names = self.modules.get(found[2], "") if found else ""
        return [f"blk.{found[1]}.{name}.weight" for name in names.split()] if found else []

    def order(self, tensor: str) -> Order | None:
        """The order of the rows of a weight; None where they lie as in its module."""
        found = re.fullmatch(r"blk\.\d+\.(.+)\.weight", tensor)
        return self.orders.get(found[1]) if found else None


KINDS = {
    "arcee": Kind("arcee", _UNGATED, _TURNED),
    "bloom": Kind("bloom", _BLOOM, _UNMIXED, "transformer.h", "transformer.word_embeddings"),
    "cohere": Kind("command-r"),
    "cohere2": Kind("cohere2"),
    "ernie4_5": Kind("ernie4_5"),
    "exaone4": Kind("exaone4"),
    "gemma": Kind("gemma"),
    "gemma2": Kind("gemma2"),
    "gemma3_text": Kind("gemma3"),
    "glm": Kind("chatglm", _FUSED_MLP),
    "glm4": Kind("glm4", _FUSED_MLP),
    "gpt2": Kind("gpt2", _GPT2, {}, "transformer.h", "transformer.wte"),
    "gpt_bigcode": Kind("starcoder", _GPT2, {}, "transformer.h", "transformer.wte"),
    "gpt_neox": Kind("gptneox", _NEOX, _UNMIXED, "gpt_neox.layers", "gpt_neox.embed_in"),
    "granite": Kind("granite", orders=_TURNED),
    "granitemoe": Kind("granitemoe", _ATTENTION, _TURNED),
    "granitemoehybrid": Kind("granite", _GRANITE_4, _TURNED, is_plain=True),
    "hunyuan_v1_dense": Kind("hunyuan-dense"),
    "lfm2": Kind("lfm2", _LFM2),
    "llama": Kind("llama", orders=_TURNED),
    "mistral": Kind("llama", orders=_TURNED),
    "nemotron": Kind("nemotron", _UNGATED),
    "olmo": Kind("olmo", orders=_TURNED),
    "olmo2": Kind("olmo2"),
    "olmo3": Kind("olmo2"),
    "olmoe": Kind("olmoe", _ATTENTION),
    "phi": Kind("phi2", _PHI),
    "phi3": Kind("phi3", _PHI3),
    "qwen2": Kind("qwen2"),
    "qwen2_moe": Kind("qwen2moe", _SHARED_EXPERT),
    "qwen3": Kind("qwen3"),
    "qwen3_moe": Kind("qwen3moe", _ATTENTION),
    "seed_oss": Kind("seed_oss"),
    "smollm3": Kind("smollm3", orders=_TURNED),
    "stablelm": Kind("stablelm"),
    "starcoder2": Kind("starcoder2", _STARCODER2),
}
