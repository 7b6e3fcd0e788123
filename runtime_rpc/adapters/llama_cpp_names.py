"""Modules of language models as llama.cpp names their tensors, by the kind of model.

A kind is what a configuration of Hugging Face says as `model_type`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

_DECODER: Mapping[str, str] = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
_GPT2: Mapping[str, str] = {
    "attn.c_attn": "attn_qkv",
    "attn.c_proj": "attn_output",
    "mlp.c_fc": "ffn_up",
    "mlp.c_proj": "ffn_down",
}


@dataclass(frozen=True)
class Kind:
    """A kind of language model.

    Attributes:
        architecture: its name in llama.cpp.
        modules: the tensors of a layer, by module.
        layer: what is before the number of a layer in the names of its modules.
        embedding: the module of the embedding.
        is_turned: whether llama.cpp has the rows of queries and keys in another order: there the
            two halves of each head that are rotated together lie side by side.
    """

    architecture: str
    modules: Mapping[str, str]
    layer: str = "model.layers"
    embedding: str = "model.embed_tokens"
    is_turned: bool = False

    def tensor(self, module: str) -> str | None:
        """The tensor of a module's weight; None where there is none."""
        if module in (self.embedding, "lm_head"):
            return "output.weight" if module == "lm_head" else "token_embd.weight"
        found = re.fullmatch(rf"{re.escape(self.layer)}\.(\d+)\.(.+)", module)
        name = found and self.modules.get(found[2])
        return f"blk.{found[1]}.{name}.weight" if found and name else None


KINDS = {
    "gemma": Kind("gemma", _DECODER),
    "gemma2": Kind("gemma2", _DECODER),
    "gemma3_text": Kind("gemma3", _DECODER),
    "gpt2": Kind("gpt2", _GPT2, "transformer.h", "transformer.wte"),
    "llama": Kind("llama", _DECODER, is_turned=True),
    "mistral": Kind("llama", _DECODER, is_turned=True),
    "qwen2": Kind("qwen2", _DECODER),
    "qwen3": Kind("qwen3", _DECODER),
}
