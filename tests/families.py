"""Twelve families of models in tiny configurations, as one makes them in PyTorch."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from benchmarks.models.pytorch import small
from benchmarks.models.pytorch.torchvision_models import models

CLASSES = 5
BATCH = 4
WORDS, LENGTH = 40, 6


@dataclass(frozen=True)
class Family:
    """A module, and what it is trained with.

    Attributes:
        make: makes the module, as its package leaves it.
        inputs: from a number of samples to the arguments of `forward`, a tuple or by name.
        label: from a number of samples to the label.
        loss: PyTorch's, of what `forward` gives and the label.
        text: the same loss as odtc's options have it, or of each output.
        lr: at which the loss of random data goes down.
    """

    make: Callable[[], nn.Module]
    inputs: Callable[[int], tuple[Tensor, ...] | dict[str, Any]]
    label: Callable[[int], Any]
    loss: Callable[[Any, Any], Tensor] = F.cross_entropy
    text: str | dict[str, str] = "cross-entropy"
    lr: float = 0.05


def images(size: int = 32) -> Callable[[int], tuple[Tensor, ...]]:
    """Square images."""
    return lambda batch: (torch.randn(batch, 3, size, size),)


def classes(*shape: int) -> Callable[[int], Tensor]:
    """Class numbers."""
    return lambda batch: torch.randint(0, CLASSES, (batch, *shape))


def mlp() -> nn.Module:
    """Batch normalisation and dropout."""
    return nn.Sequential(
        *(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.5)),
        *(nn.Linear(16, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, CLASSES)),
    )


def efficientnet() -> nn.Module:
    """Two stages, with stochastic depth."""
    config = models.efficientnet.MBConvConfig
    blocks = [config(1, 3, 1, 8, 8, 2), config(6, 5, 2, 8, 16, 2)]
    return models.EfficientNet(blocks, 0.2, 0.2, CLASSES, last_channel=32)


def vit() -> nn.Module:
    """timm's, of two blocks."""
    from timm.models.vision_transformer import VisionTransformer

    return VisionTransformer(
        img_size=16, patch_size=8, embed_dim=16, depth=2, num_heads=2, num_classes=CLASSES
    )


def convnext() -> nn.Module:
    """timm's, of four blocks, with stochastic depth."""
    from timm.models.convnext import ConvNeXt

    return ConvNeXt(
        depths=(1, 1, 1, 1), dims=(8, 8, 16, 16), num_classes=CLASSES, drop_path_rate=0.1
    )


def distilbert() -> nn.Module:
    """Two layers, and a classifier."""
    from transformers import DistilBertConfig, DistilBertForSequenceClassification

    return DistilBertForSequenceClassification(
        DistilBertConfig(
            vocab_size=WORDS,
            max_position_embeddings=16,
            n_layers=2,
            n_heads=2,
            dim=16,
            hidden_dim=32,
            num_labels=CLASSES,
        )
    )


def gpt2() -> nn.Module:
    """Two layers, with the head tied to the embedding."""
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=WORDS, n_positions=16, n_embd=16, n_layer=2, n_head=2, use_cache=False
        )
    )


def llama() -> nn.Module:
    """Two layers, with the head tied to the embedding."""
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=WORDS,
            hidden_size=16,
            intermediate_size=32,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=1,
            max_position_embeddings=16,
            tie_word_embeddings=True,
            use_cache=False,
        )
    )


class Recurrent(nn.Module):
    """A GRU of two layers, both ways, batch first."""

    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(6, 8, num_layers=2, batch_first=True, bidirectional=True, dropout=0.2)
        self.head = nn.Linear(16, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.gru(x)[0][:, -1])


class UNet(nn.Module):
    """Two levels, a transposed convolution, and a skip; the image's mean is a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor([0.4, 0.5, 0.6]).reshape(3, 1, 1))
        self.down = self._block(3, 8)
        self.deep = self._block(8, 16)
        self.up = nn.ConvTranspose2d(16, 8, 2, stride=2)
        self.last = self._block(16, 8)
        self.head = nn.Conv2d(8, CLASSES, 1)

    @staticmethod
    def _block(before: int, after: int) -> nn.Sequential:
        return nn.Sequential(
            nn.Conv2d(before, after, 3, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU()
        )

    def forward(self, image: Tensor) -> Tensor:
        skip = self.down(image - self.mean)
        up = self.up(self.deep(F.max_pool2d(skip, 2)))
        return self.head(self.last(torch.cat([skip, up], 1)))


class Detector(nn.Module):
    """A head that decodes boxes by its anchors and strides, which are buffers."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 8, 3, 4, 1, bias=False), nn.BatchNorm2d(8), nn.SiLU()
        )
        self.boxes, self.scores = nn.Conv2d(8, 4, 1), nn.Conv2d(8, CLASSES, 1)
        centres = torch.arange(8) + 0.5
        grid = torch.stack(torch.meshgrid(centres, centres, indexing="xy"))
        self.register_buffer("anchors", grid.reshape(1, 2, 64))
        self.register_buffer("strides", torch.full((1, 1, 64), 4.0))
        self.scale = nn.Parameter(torch.tensor(1.0))

    def forward(self, image: Tensor) -> dict[str, Tensor]:
        x = self.stem(image)
        near, far = self.boxes(x).flatten(2).chunk(2, 1)
        low, high = self.anchors - near * self.scale, self.anchors + far * self.scale
        boxes = torch.cat([(low + high) / 2, high - low], 1) * self.strides
        return {"boxes": boxes / 32, "scores": self.scores(x).flatten(2)}


def of_tokens(output: Any, label: Tensor) -> Tensor:
    """Cross-entropy of each token."""
    return F.cross_entropy(output.logits.flatten(0, 1), label.flatten())


def of_boxes(output: dict[str, Tensor], label: dict[str, Tensor]) -> Tensor:
    """Of boxes and classes."""
    return F.mse_loss(output["boxes"], label["boxes"]) + F.cross_entropy(
        output["scores"], label["scores"]
    )


def tokens(batch: int) -> dict[str, Any]:
    """Token numbers, and a mask that leaves out none of them."""
    ids = torch.randint(0, WORDS, (batch, LENGTH))
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


LANGUAGE = partial(
    Family,
    inputs=lambda batch: {"input_ids": torch.randint(0, WORDS, (batch, LENGTH))},
    label=lambda batch: torch.randint(0, WORDS, (batch, LENGTH)),
    loss=of_tokens,
    text="cross-entropy{axis=2}",
)

FAMILIES = {
    "mlp": Family(mlp, lambda batch: (torch.randn(batch, 8),), classes()),
    "resnet18": Family(small.resnet18, images(), classes()),
    "mobilenet_v3": Family(small.mobilenet_v3, images(), classes()),
    "efficientnet": Family(efficientnet, images(), classes()),
    "vit": Family(vit, images(16), classes()),
    "convnext": Family(convnext, images(), classes()),
    "distilbert": Family(
        distilbert, tokens, classes(), lambda out, label: F.cross_entropy(out.logits, label)
    ),
    "gpt2": LANGUAGE(gpt2),
    "llama": LANGUAGE(llama),
    "gru": Family(Recurrent, lambda batch: (torch.randn(batch, 4, 6),), classes()),
    "unet": Family(UNet, images(8), classes(8, 8)),
    "detector": Family(
        Detector,
        images(),
        lambda batch: {"boxes": torch.rand(batch, 4, 64), "scores": classes(64)(batch)},
        of_boxes,
        {"boxes": "mse", "scores": "cross-entropy"},
    ),
}


def make(name: str, *, without_dropout: bool = True) -> nn.Module:
    """A module in training mode; without dropout and stochastic depth it can be compared."""
    torch.manual_seed(0)
    module = FAMILIES[name].make().train()
    for part in module.modules() if without_dropout else ():
        silence(part)
    return module


def silence(part: nn.Module) -> None:
    """Lets a dropout, or a layer with dropout inside, let everything through."""
    for name in ("p", "drop_prob", "dropout", "attn_dropout_p"):
        if isinstance(getattr(part, name, None), float):
            setattr(part, name, 0.0)
    if isinstance(getattr(part, "attn_drop", None), float):
        part.attn_drop = 0.0
    if hasattr(part, "attention_dropout") and isinstance(part.attention_dropout, float):
        part.attention_dropout = 0.0
