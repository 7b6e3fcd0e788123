"""Language models of transformers in tiny configurations, with random weights."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

WORDS, LENGTH, BATCH = 48, 8, 2
SIZES = {
    "vocab_size": WORDS,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 4,
    "max_position_embeddings": 16,
    "use_cache": False,
}


@dataclass(frozen=True)
class Language:
    """A language model, and what of it is adapted.

    Attributes:
        make: makes it.
        targets: names of the modules as PEFT takes them.
    """

    make: Callable[[], nn.Module]
    targets: tuple[str, ...] = ("q_proj", "k_proj", "o_proj", "down_proj")

    @property
    def globs(self) -> str:
        """The same as odtc takes them."""
        return "|".join(f"*{name}.weight" for name in self.targets)


def gpt2() -> nn.Module:
    """With matrices that are stored `[in, out]`, one of query, key and value together."""
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=WORDS,
            n_positions=16,
            n_embd=16,
            n_layer=1,
            n_head=4,
            use_cache=False,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
        )
    )


def llama() -> nn.Module:
    """With a head of its own."""
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(LlamaConfig(**SIZES))


def qwen2() -> nn.Module:
    """With biases of query, key and value."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    return Qwen2ForCausalLM(Qwen2Config(**SIZES, tie_word_embeddings=True))


def qwen3() -> nn.Module:
    """With normalised queries and keys, and a head that is tied to the embedding."""
    from transformers import Qwen3Config, Qwen3ForCausalLM

    return Qwen3ForCausalLM(Qwen3Config(**SIZES, tie_word_embeddings=True))


def gemma3() -> nn.Module:
    """With a sliding window, and four normalisations a layer."""
    from transformers import Gemma3ForCausalLM, Gemma3TextConfig

    return Gemma3ForCausalLM(
        Gemma3TextConfig(**SIZES, sliding_window=4, query_pre_attn_scalar=4, pad_token_id=0)
    )


LANGUAGES = {
    "gpt2": Language(gpt2, ("c_attn", "mlp.c_proj")),
    "llama": Language(llama, ("embed_tokens", "q_proj", "k_proj", "down_proj", "lm_head")),
    "qwen2": Language(qwen2),
    "qwen3": Language(qwen3),
    "gemma3": Language(gemma3),
}


def language(name: str) -> nn.Module:
    """A model, with the same weights each time, none of them zero."""
    return filled(LANGUAGES[name].make)


def filled(make: Callable[[], nn.Module], spread: float = 0.1) -> nn.Module:
    """The same of a model that is made elsewhere, with weights of about this size."""
    torch.manual_seed(0)
    module = make()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn(parameter.shape) * spread)
    return module.train()


def tokens(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A batch of numbers of words, and of those that follow; some of these are ignored."""
    words = torch.randint(
        0, WORDS, (BATCH, LENGTH + 1), generator=torch.Generator().manual_seed(seed)
    )
    ids, labels = words[:, :-1], words[:, 1:].clone()
    labels[:, :2] = -100
    return ids, labels
