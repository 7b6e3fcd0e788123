"""The table of models: what people train, at full size and at a size for tests."""

from collections.abc import Callable
from functools import partial

from torch import nn

from benchmarks.models.pytorch import attention, small
from benchmarks.models.pytorch.classic import LeNet, densenet
from benchmarks.models.pytorch.generative import Adversary, DeepQ, UNet, discriminator
from benchmarks.models.pytorch.sequence import CharCnnLstm, Seq2Seq, keyword_net
from benchmarks.models.pytorch.spec import (
    TorchModel,
    binary,
    classes,
    images,
    joined,
    signals,
    tokens,
    values,
)
from benchmarks.models.pytorch.torchvision_models import models


def _image_net(build: Callable[[], nn.Module], size: int = 224, lr: float = 0.01) -> TorchModel:
    return TorchModel(build, images(size), classes(1000), lr=lr)


def _cifar_net(build: Callable[[], nn.Module], size: int = 32) -> TorchModel:
    return TorchModel(build, images(size), classes(10))


def _text(length: int, vocabulary: int):
    def mask(rng, batch):
        # Sentences of different length, padded at the end.
        lengths = rng.integers(length // 2, length + 1, (batch, 1))
        return {"attention_mask": (range(length) < lengths).astype("int64")}

    return joined(tokens(length, vocabulary), mask)


def _translation(source: int, target: int, vocabulary: int):
    return joined(tokens(source, vocabulary, "source"), tokens(target, vocabulary, "target"))


def _plays(actions: int):
    return joined(signals(4, 84, 84, name="frames"), tokens(1, actions, "action"))


_TINY_BERT = {
    "vocab_size": 64,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "max_position_embeddings": 32,
}
_TINY_MOBILE_BERT = {
    "vocab_size": 64,
    "hidden_size": 32,
    "embedding_size": 16,
    "intra_bottleneck_size": 16,
    "true_hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "num_feedforward_networks": 2,
    "max_position_embeddings": 32,
}
_TINY_GPT2 = {"vocab_size": 64, "n_positions": 16, "n_embd": 32, "n_layer": 2, "n_head": 2}

FULL: dict[str, TorchModel] = {
    "lenet": TorchModel(LeNet, images(28, 1), classes(10), batch=32),
    "alexnet": _image_net(models.alexnet),
    "vgg16": _image_net(models.vgg16),
    "vgg19": _image_net(models.vgg19),
    "googlenet": _image_net(partial(models.googlenet, aux_logits=False, init_weights=False)),
    "squeezenet": _image_net(models.squeezenet1_1),
    "mobilenet_v2": _image_net(models.mobilenet_v2),
    "mobilenet_v3": _image_net(models.mobilenet_v3_large),
    "efficientnet_b0": _image_net(partial(models.efficientnet_b0, stochastic_depth_prob=0.0)),
    "shufflenet_v2": _image_net(models.shufflenet_v2_x1_0),
    "resnet18": _image_net(models.resnet18),
    "resnet50": _image_net(models.resnet50),
    "resnet101": _image_net(models.resnet101),
    "resnet152": _image_net(models.resnet152),
    "densenet40_12": _cifar_net(partial(densenet, 40, 12)),
    "densenet100_12": _cifar_net(partial(densenet, 100, 12)),
    "densenet121": _image_net(models.densenet121),
    "xception": _image_net(attention.xception, 299),
    "char_cnn_lstm": TorchModel(CharCnnLstm, tokens(128, 96, "characters"), classes(10)),
    "seq2seq": TorchModel(
        Seq2Seq, _translation(24, 20, 1000), classes(1000, 20), "token-cross-entropy"
    ),
    "keyword": TorchModel(keyword_net, signals(1, 16000, name="sound"), classes(35)),
    "dcgan_discriminator": TorchModel(discriminator, images(64), binary(1), "bce-with-logits"),
    "dcgan_generator": TorchModel(
        Adversary,
        signals(100, 1, 1, name="noise"),
        binary(1),
        "bce-with-logits",
        trained="generator.",
    ),
    "deep_q": TorchModel(DeepQ, _plays(18), values(1), "mse"),
    "unet": TorchModel(UNet, images(128), binary(1, 128, 128), "bce-with-logits"),
    "unet_resize": TorchModel(
        partial(UNet, resize=True), images(128), binary(1, 128, 128), "bce-with-logits"
    ),
    "vit_tiny": _image_net(attention.vit),
    "bert_base": TorchModel(attention.bert, _text(128, 30522), classes(2)),
    "mobile_bert": TorchModel(attention.mobile_bert, _text(128, 30522), classes(2), lr=1e-3),
    "gpt2": TorchModel(
        attention.gpt2, _text(64, 50257), classes(50257, 64), "token-cross-entropy", batch=2
    ),
}

SMALL: dict[str, TorchModel] = {
    "lenet": TorchModel(LeNet, images(28, 1), classes(10), batch=8),
    "alexnet": _cifar_net(small.alexnet, 95),
    "vgg16": _cifar_net(small.vgg),
    "googlenet": _cifar_net(small.googlenet),
    "squeezenet": _cifar_net(small.squeezenet),
    "mobilenet_v2": _cifar_net(small.mobilenet_v2),
    "mobilenet_v3": _cifar_net(small.mobilenet_v3),
    "efficientnet_b0": _cifar_net(small.efficientnet),
    "shufflenet_v2": _cifar_net(small.shufflenet),
    "resnet18": _cifar_net(small.resnet18),
    "resnet50": _cifar_net(small.resnet50),
    "densenet40_12": _cifar_net(partial(densenet, 10, 4), 16),
    "densenet121": _cifar_net(small.densenet121, 64),
    "xception": _cifar_net(small.xception),
    "char_cnn_lstm": TorchModel(
        partial(CharCnnLstm, 32, 8, 4, 8, 2), tokens(16, 32, "characters"), classes(10)
    ),
    "seq2seq": TorchModel(
        partial(Seq2Seq, 30, 8, 12), _translation(7, 5, 30), classes(30, 5), "token-cross-entropy"
    ),
    "keyword": TorchModel(
        partial(keyword_net, (4, 8), 20), signals(1, 800, name="sound"), classes(35)
    ),
    "dcgan_discriminator": TorchModel(
        partial(discriminator, 4), images(64), binary(1), "bce-with-logits"
    ),
    "dcgan_generator": TorchModel(
        partial(Adversary, 8, 4),
        signals(8, 1, 1, name="noise"),
        binary(1),
        "bce-with-logits",
        trained="generator.",
    ),
    "deep_q": TorchModel(partial(DeepQ, 4, (4, 8, 8, 16)), _plays(4), values(1), "mse"),
    "unet": TorchModel(partial(UNet, (4, 8, 8)), images(16), binary(1, 16, 16), "bce-with-logits"),
    "unet_resize": TorchModel(
        partial(UNet, (4, 8, 8), resize=True), images(16), binary(1, 16, 16), "bce-with-logits"
    ),
    "vit_tiny": _cifar_net(
        partial(
            attention.vit,
            img_size=32,
            patch_size=8,
            embed_dim=32,
            depth=2,
            num_classes=10,
            num_heads=2,
        )
    ),
    "bert_base": TorchModel(partial(attention.bert, **_TINY_BERT), _text(12, 64), classes(2)),
    "mobile_bert": TorchModel(
        partial(attention.mobile_bert, **_TINY_MOBILE_BERT), _text(12, 64), classes(2)
    ),
    "gpt2": TorchModel(
        partial(attention.gpt2, **_TINY_GPT2), _text(10, 64), classes(64, 10), "token-cross-entropy"
    ),
}
