"""LeNet-5 and the DenseNets for small images, which torchvision does not have."""

import torch
from torch import Tensor, nn


class LeNet(nn.Module):
    """LeNet-5 (LeCun et al. 1998) with max pooling: float32[N,1,28,28] to logits [N,10]."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5, padding=2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(400, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, 10)

    def forward(self, image: Tensor) -> Tensor:
        """Logits."""
        x = nn.functional.max_pool2d(torch.tanh(self.conv1(image)), 2)
        x = nn.functional.max_pool2d(torch.tanh(self.conv2(x)), 2)
        x = x.view(x.size(0), -1)
        return self.fc3(torch.tanh(self.fc2(torch.tanh(self.fc1(x)))))


class DenseLayer(nn.Module):
    """BN, ReLU and a 3x3 convolution; its input is kept beside its output."""

    def __init__(self, channels: int, growth: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(channels)
        self.conv = nn.Conv2d(channels, growth, 3, padding=1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Appends `growth` channels."""
        return torch.cat([x, self.conv(torch.relu(self.norm(x)))], 1)


def transition(channels: int) -> nn.Sequential:
    """Halves the image between two dense blocks."""
    return nn.Sequential(
        nn.BatchNorm2d(channels),
        nn.ReLU(),
        nn.Conv2d(channels, channels, 1, bias=False),
        nn.AvgPool2d(2),
    )


def densenet(depth: int, growth: int, classes: int = 10, blocks: int = 3) -> nn.Sequential:
    """DenseNet without bottlenecks (Huang et al. 2017), for float32[N,3,32,32].

    Args:
        depth: layers with weights: DenseNet-40-12 is `densenet(40, 12)`.
        growth: channels that a layer adds.
        classes: of the logits.
        blocks: dense blocks; 4 layers of the depth are not in them.
    """
    channels = 16
    layers: list[nn.Module] = [nn.Conv2d(3, channels, 3, padding=1, bias=False)]
    for block in range(blocks):
        if block:
            layers.append(transition(channels))
        for _ in range((depth - blocks - 1) // blocks):
            layers.append(DenseLayer(channels, growth))
            channels += growth
    head = [nn.BatchNorm2d(channels), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers, *head, nn.Linear(channels, classes))
