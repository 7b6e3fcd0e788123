"""The table of models: what people train, at full size and at a size for tests."""

from dataclasses import replace
from functools import partial

from benchmarks.models.pytorch import attention, small, tasks
from benchmarks.models.pytorch.classic import LeNet, densenet
from benchmarks.models.pytorch.generative import Adversary, DeepQ, UNet, discriminator
from benchmarks.models.pytorch.residual import bottleneck_net
from benchmarks.models.pytorch.segmentation import FCN8, SegNet
from benchmarks.models.pytorch.sequence import CharCnnLstm, CharLstm, Seq2Seq, keyword_net
from benchmarks.models.pytorch.spec import TorchModel
from benchmarks.models.pytorch.torchvision_models import models

# Fifty and more batch normalisations over four images: at 1e-4 even PyTorch's own float32 and
# float64 part by 2e-3 of the loss within three steps.
STEEP = 1e-6

# BERT-tiny of Turc et al. 2019.
_BERT_TINY = {
    "hidden_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 512,
}

FULL: dict[str, TorchModel] = {
    "lenet": tasks.digits(LeNet),
    "alexnet": tasks.image_net(models.alexnet),
    "vgg16": tasks.image_net(models.vgg16),
    "vgg19": tasks.image_net(models.vgg19),
    "googlenet": tasks.image_net(
        partial(models.googlenet, aux_logits=False, init_weights=False), lr=STEEP
    ),
    "squeezenet": tasks.image_net(models.squeezenet1_1),
    "mobilenet_v2": tasks.image_net(models.mobilenet_v2, lr=STEEP),
    "mobilenet_v2_frozen_norms": replace(
        tasks.image_net(models.mobilenet_v2, lr=STEEP), frozen_norms=True
    ),
    "mobilenet_v3": tasks.image_net(models.mobilenet_v3_large),
    "efficientnet_b0": tasks.image_net(partial(models.efficientnet_b0, stochastic_depth_prob=0.0)),
    "shufflenet_v2": tasks.image_net(models.shufflenet_v2_x1_0),
    "resnet18": tasks.image_net(models.resnet18),
    "resnet50": tasks.image_net(partial(bottleneck_net, models.resnet50), lr=1e-5),
    "resnet101": tasks.image_net(partial(bottleneck_net, models.resnet101), lr=1e-5),
    "resnet152": tasks.image_net(partial(bottleneck_net, models.resnet152), lr=1e-5),
    "densenet40_12": tasks.cifar(partial(densenet, 40, 12), lr=1e-3),
    "densenet100_12": tasks.cifar(partial(densenet, 100, 12), lr=STEEP),
    "densenet121": tasks.image_net(models.densenet121, lr=STEEP),
    "xception": tasks.image_net(attention.xception, 299),
    "char_cnn_lstm": tasks.characters(CharCnnLstm, 128, 96),
    "char_lstm": tasks.next_character(CharLstm, 64, 96),
    "seq2seq": tasks.translation(Seq2Seq, 24, 20, 1000),
    "keyword": tasks.sound(keyword_net, 16000),
    "dcgan_discriminator": tasks.critic(discriminator),
    # At 0.01 a part in 10^7 of the weights, in PyTorch's float64, becomes 8e-4 within two steps.
    "dcgan_generator": tasks.forger(Adversary, 100, lr=1e-4),
    "deep_q": tasks.plays(DeepQ, 18),
    "unet": tasks.segmentation(UNet, 128),
    "unet_resize": tasks.segmentation(partial(UNet, resize=True), 128),
    "fcn8": tasks.segmentation(FCN8, 128),
    # At 0.1 they part by 1.6e-3 here: twenty-six normalisations.
    "segnet": tasks.segmentation(SegNet, 128, lr=STEEP),
    "vit_tiny": tasks.image_net(attention.vit),
    "bert_base": tasks.sentences(attention.bert, 128, 30522, lr=0.01),
    "bert_tiny": tasks.sentences(
        partial(attention.bert, **_BERT_TINY), 128, 30522, lr=0.01, batch=8
    ),
    "mobile_bert": tasks.sentences(attention.mobile_bert, 128, 30522, lr=1e-3),
    "gpt2": tasks.language(attention.gpt2, 64, 50257, batch=2),
}

_BERT = {
    "vocab_size": 64,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "max_position_embeddings": 32,
}
_MOBILE_BERT = _BERT | {
    "embedding_size": 16,
    "intra_bottleneck_size": 16,
    "true_hidden_size": 16,
    "num_hidden_layers": 1,
    "num_feedforward_networks": 2,
}
_GPT2 = {"vocab_size": 64, "n_positions": 16, "n_embd": 32, "n_layer": 2, "n_head": 2}
_VIT = {"patch_size": 8, "embed_dim": 32, "depth": 2, "num_heads": 2}

SMALL: dict[str, TorchModel] = {
    "lenet": tasks.digits(LeNet, batch=8),
    "alexnet": tasks.cifar(small.alexnet, 95),
    "vgg16": tasks.cifar(small.vgg),
    "googlenet": tasks.cifar(small.googlenet),
    "squeezenet": tasks.cifar(small.squeezenet),
    "mobilenet_v2": tasks.cifar(small.mobilenet_v2),
    "mobilenet_v2_frozen_norms": replace(tasks.cifar(small.mobilenet_v2), frozen_norms=True),
    "mobilenet_v3": tasks.cifar(small.mobilenet_v3, lr=0.5),
    "efficientnet_b0": tasks.cifar(small.efficientnet),
    "shufflenet_v2": tasks.cifar(small.shufflenet),
    "resnet18": tasks.cifar(small.resnet18),
    "resnet50": tasks.cifar(small.resnet50),
    "densenet40_12": tasks.cifar(partial(densenet, 10, 4), 16),
    "densenet121": tasks.cifar(small.densenet121, 64),
    "xception": tasks.cifar(small.xception),
    "char_cnn_lstm": tasks.characters(partial(CharCnnLstm, 32, 8, 4, 8, 2), 8, 32),
    "seq2seq": tasks.translation(partial(Seq2Seq, 30, 8, 12), 4, 3, 30),
    "keyword": tasks.sound(partial(keyword_net, (4, 8), 20), 800),
    "dcgan_discriminator": tasks.critic(partial(discriminator, 4)),
    "dcgan_generator": tasks.forger(partial(Adversary, 8, 4), 8),
    "deep_q": tasks.plays(partial(DeepQ, 4, (4, 8, 8, 16)), 4),
    "unet": tasks.segmentation(partial(UNet, (4, 8, 8)), 16),
    "unet_resize": tasks.segmentation(partial(UNet, (4, 8, 8), resize=True), 16),
    "fcn8": tasks.segmentation(partial(FCN8, ((4, 1), (4, 1), (8, 2), (8, 1), (8, 1)), 16), 32),
    "segnet": tasks.segmentation(partial(SegNet, ((4, 1), (8, 2))), 16),
    "vit_tiny": tasks.cifar(partial(attention.vit, img_size=32, num_classes=10, **_VIT)),
    "bert_base": tasks.sentences(partial(attention.bert, **_BERT), 12, 64, lr=0.1),
    "mobile_bert": tasks.sentences(partial(attention.mobile_bert, **_MOBILE_BERT), 12, 64, lr=1.0),
    "gpt2": tasks.language(partial(attention.gpt2, **_GPT2), 10, 64),
}
