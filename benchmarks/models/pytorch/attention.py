"""Transformers: BERT, MobileBERT and a GPT-2-shaped decoder, by `transformers`; ViT, by timm."""

from typing import Any

from torch import Tensor, nn

# Importing torchvision this way first lets the two others find it.
from benchmarks.models.pytorch.torchvision_models import models  # noqa: F401

_NO_DROPOUT = {
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}


class Logits(nn.Module):
    """A model of `transformers` that returns its logits alone."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """Logits."""
        return self.model(input_ids=input_ids, attention_mask=attention_mask).logits


def bert(**config: Any) -> nn.Module:
    """BERT for the classification of sequences; BERT-base where nothing is given."""
    from transformers import BertConfig, BertForSequenceClassification

    return Logits(BertForSequenceClassification(BertConfig(**_NO_DROPOUT, **config)))


def mobile_bert(**config: Any) -> nn.Module:
    """MobileBERT for the classification of sequences."""
    from transformers import MobileBertConfig, MobileBertForSequenceClassification

    # It reads the token after each word: by default PyTorch would not train padding there, but
    # ONNX, which has no word for that, would.
    config = {"pad_token_id": None} | config
    return Logits(MobileBertForSequenceClassification(MobileBertConfig(**_NO_DROPOUT, **config)))


def gpt2(**config: Any) -> nn.Module:
    """A decoder of GPT-2's shape, to the logits of each next token."""
    from transformers import GPT2Config, GPT2LMHeadModel

    off: dict[str, Any] = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    # With the fused attention the TorchScript exporter fails.
    off |= {"attn_implementation": "eager", "use_cache": False}
    return Logits(GPT2LMHeadModel(GPT2Config(**off, **config)))


def vit(**config: Any) -> nn.Module:
    """A vision transformer; `vit_tiny_patch16_224` where nothing is given."""
    from timm.models.vision_transformer import VisionTransformer

    tiny: dict[str, Any] = {"patch_size": 16, "embed_dim": 192, "depth": 12, "num_heads": 3}
    return VisionTransformer(**(tiny | config))


def xception() -> nn.Module:
    """Xception."""
    from timm.models.xception import Xception

    return Xception()
