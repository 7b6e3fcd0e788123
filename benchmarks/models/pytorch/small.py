"""Image nets of the table at a size that a test compiles in seconds: real blocks, few and thin."""

from functools import partial

from torch import nn

from benchmarks.models.pytorch.torchvision_models import models

CLASSES = 10


def _head(channels: int) -> list[nn.Module]:
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, CLASSES)]


def _stem(channels: int) -> list[nn.Module]:
    return [
        nn.Conv2d(3, channels, 3, stride=2, padding=1, bias=False),
        nn.BatchNorm2d(channels),
        nn.ReLU(),
    ]


def alexnet() -> nn.Module:
    """AlexNet's features on 95 pixels, with a smaller classifier."""
    net = models.alexnet(num_classes=CLASSES)
    net.avgpool = nn.AdaptiveAvgPool2d((2, 2))
    net.classifier = nn.Sequential(
        nn.Dropout(), nn.Linear(1024, 64), nn.ReLU(), nn.Linear(64, CLASSES)
    )
    return net


def vgg() -> nn.Module:
    """VGG's features of three stages on 32 pixels."""
    features = models.vgg.make_layers([8, "M", 16, "M", 16, 16, "M"])
    net = models.VGG(features, num_classes=CLASSES)
    net.avgpool = nn.AdaptiveAvgPool2d((4, 4))
    net.classifier = nn.Sequential(nn.Linear(256, 32), nn.ReLU(), nn.Linear(32, CLASSES))
    return net


def googlenet() -> nn.Module:
    """Two inception modules."""
    from torchvision.models.googlenet import Inception as inception  # noqa: N813

    return nn.Sequential(
        *_stem(8),
        nn.MaxPool2d(3, stride=2, ceil_mode=True),
        inception(8, 4, 4, 8, 2, 4, 4),
        inception(20, 8, 4, 8, 2, 4, 4),
        *_head(24),
    )


def squeezenet() -> nn.Module:
    """Two fire modules, and the convolution that classifies."""
    from torchvision.models.squeezenet import Fire as fire  # noqa: N813

    return nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2),
        nn.ReLU(),
        nn.MaxPool2d(3, stride=2, ceil_mode=True),
        fire(8, 4, 8, 8),
        fire(16, 4, 8, 8),
        nn.Conv2d(16, CLASSES, 1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
    )


def mobilenet_v2() -> nn.Module:
    """One block of each kind."""
    blocks = [[1, 16, 1, 1], [6, 24, 2, 2]]
    net = models.MobileNetV2(CLASSES, 0.35, blocks)
    last = nn.Sequential(nn.Conv2d(8, 32, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU6())
    net.features[-1] = last
    net.classifier = nn.Sequential(nn.Dropout(), nn.Linear(32, CLASSES))
    return net


def mobilenet_v3() -> nn.Module:
    """A block with ReLU, and one with hard swish and squeeze-and-excitation."""
    config = partial(models.mobilenetv3.InvertedResidualConfig, dilation=1, width_mult=1.0)
    blocks = [config(8, 3, 16, 8, False, "RE", 2), config(8, 5, 24, 8, True, "HS", 1)]
    return models.MobileNetV3(blocks, 32, CLASSES)


def efficientnet() -> nn.Module:
    """Two stages."""
    config = models.efficientnet.MBConvConfig
    blocks = [config(1, 3, 1, 8, 8, 1), config(6, 5, 2, 8, 16, 1)]
    return models.EfficientNet(blocks, 0.0, 0.0, CLASSES, last_channel=32)


def shufflenet() -> nn.Module:
    """One block that halves the image, and one that does not, in three stages."""
    return models.ShuffleNetV2([2, 1, 1], [8, 16, 16, 16, 32], CLASSES)


def resnet18() -> nn.Module:
    """A plain block, and one that halves the image."""
    block = models.resnet.BasicBlock
    return nn.Sequential(*_stem(8), block(8, 8), block(8, 16, 2, _shortcut(8, 16)), *_head(16))


def resnet50() -> nn.Module:
    """Two bottlenecks."""
    block = models.resnet.Bottleneck
    return nn.Sequential(*_stem(8), block(8, 4, 2, _shortcut(8, 16)), block(16, 4), *_head(16))


def _shortcut(before: int, after: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(before, after, 1, stride=2, bias=False), nn.BatchNorm2d(after))


def densenet121() -> nn.Module:
    """Two dense blocks with bottlenecks."""
    return models.DenseNet(4, (2, 2), 8, bn_size=2, num_classes=CLASSES)


def xception() -> nn.Module:
    """Two blocks of separable convolutions."""
    from timm.models.xception import Block

    return nn.Sequential(
        *_stem(8),
        Block(8, 16, 2, 2, start_with_relu=False),
        Block(16, 16, 2, 1),
        nn.ReLU(),
        *_head(16),
    )
