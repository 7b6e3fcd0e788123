"""DCGAN (Radford et al. 2016), a U-Net (Ronneberger et al. 2015) and a deep-Q network."""

from itertools import pairwise

import torch
from torch import Tensor, nn


def generator(noise: int = 100, width: int = 64) -> nn.Sequential:
    """float32[N,noise,1,1] to images [N,3,64,64]."""
    layers: list[nn.Module] = [nn.ConvTranspose2d(noise, 8 * width, 4, bias=False)]
    for before, after in pairwise((8 * width, 4 * width, 2 * width, width)):
        layers += [nn.BatchNorm2d(before), nn.ReLU()]
        layers.append(nn.ConvTranspose2d(before, after, 4, stride=2, padding=1, bias=False))
    layers += [nn.BatchNorm2d(width), nn.ReLU()]
    layers += [nn.ConvTranspose2d(width, 3, 4, stride=2, padding=1, bias=False), nn.Tanh()]
    return nn.Sequential(*layers)


def discriminator(width: int = 64) -> nn.Sequential:
    """Images float32[N,3,64,64] to a logit [N,1]: whether the image is real."""
    layers: list[nn.Module] = [nn.Conv2d(3, width, 4, stride=2, padding=1, bias=False)]
    layers.append(nn.LeakyReLU(0.2))
    for before, after in pairwise((width, 2 * width, 4 * width, 8 * width)):
        layers.append(nn.Conv2d(before, after, 4, stride=2, padding=1, bias=False))
        layers += [nn.BatchNorm2d(after), nn.LeakyReLU(0.2)]
    return nn.Sequential(*layers, nn.Conv2d(8 * width, 1, 4, bias=False), nn.Flatten())


class Adversary(nn.Module):
    """The generator's training graph: the discriminator's logit of its images."""

    def __init__(self, noise: int = 100, width: int = 64) -> None:
        super().__init__()
        self.generator = generator(noise, width)
        self.discriminator = discriminator(width)

    def forward(self, noise: Tensor) -> Tensor:
        """The logit [N,1]."""
        return self.discriminator(self.generator(noise))


def _double(before: int, after: int) -> nn.Sequential:
    layers = []
    for channels in (before, after):
        layers += [nn.Conv2d(channels, after, 3, padding=1, bias=False)]
        layers += [nn.BatchNorm2d(after), nn.ReLU()]
    return nn.Sequential(*layers)


class UNet(nn.Module):
    """Segmentation: float32[N,3,H,W] to one logit a pixel, [N,1,H,W].

    Args:
        widths: channels of each level, from the full image down.
        resize: upsample bilinearly in place of a transposed convolution.
    """

    def __init__(
        self, widths: tuple[int, ...] = (32, 64, 128, 256), *, resize: bool = False
    ) -> None:
        super().__init__()
        self.down = nn.ModuleList(_double(a, b) for a, b in pairwise((3, *widths)))
        self.pool = nn.MaxPool2d(2)
        upwards = list(pairwise(widths[::-1]))
        self.up = nn.ModuleList(
            nn.Sequential(nn.Upsample(scale_factor=2, mode="bilinear"), nn.Conv2d(a, b, 1))
            if resize
            else nn.ConvTranspose2d(a, b, 2, stride=2)
            for a, b in upwards
        )
        self.join = nn.ModuleList(_double(2 * b, b) for _, b in upwards)
        self.head = nn.Conv2d(widths[0], 1, 1)

    def forward(self, image: Tensor) -> Tensor:
        """Logits."""
        kept = [self.down[0](image)]
        for block in self.down[1:]:
            kept.append(block(self.pool(kept[-1])))
        x = kept.pop()
        for up, join in zip(self.up, self.join, strict=True):
            x = join(torch.cat([up(x), kept.pop()], 1))
        return self.head(x)


class DeepQ(nn.Module):
    """Deep-Q network (Mnih et al. 2015): the values of the actions that were taken.

    frames float32[N,4,84,84] and action int64[N,1] to the value [N,1].
    """

    def __init__(self, actions: int = 18, widths: tuple[int, ...] = (32, 64, 64, 512)) -> None:
        super().__init__()
        a, b, c, hidden = widths
        self.features = nn.Sequential(
            nn.Conv2d(4, a, 8, stride=4),
            nn.ReLU(),
            nn.Conv2d(a, b, 4, stride=2),
            nn.ReLU(),
            nn.Conv2d(b, c, 3),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(c * 49, hidden),
            nn.ReLU(),
        )
        self.values = nn.Linear(hidden, actions)

    def forward(self, frames: Tensor, action: Tensor) -> Tensor:
        """The value of each sample's action; its label is the temporal-difference target."""
        return self.values(self.features(frames)).gather(1, action)
