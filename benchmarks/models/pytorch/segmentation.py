"""FCN-8 (Long et al. 2015) and SegNet (Badrinarayanan et al. 2017), a logit for each pixel."""

from itertools import pairwise

from torch import Tensor, nn

# Channels and convolutions of the levels of VGG-16.
_LEVELS = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))


def _level(before: int, after: int, count: int, *, normed: bool) -> nn.Sequential:
    layers: list[nn.Module] = []
    for first, last in pairwise((before, *(after for _ in range(count)))):
        layers.append(nn.Conv2d(first, last, 3, padding=1, bias=not normed))
        layers += [nn.BatchNorm2d(last), nn.ReLU()] if normed else [nn.ReLU()]
    return nn.Sequential(*layers)


class FCN8(nn.Module):
    """Segmentation: float32[N,3,H,W] to one logit a pixel, [N,1,H,W].

    Args:
        levels: channels and convolutions of each level.
        width: channels of the convolutions that were VGG's linear layers.
    """

    def __init__(self, levels: tuple[tuple[int, int], ...] = _LEVELS, width: int = 4096) -> None:
        super().__init__()
        widths = (3, *(width for width, _ in levels))
        self.levels = nn.ModuleList(
            _level(before, after, count, normed=False)
            for (before, after), (_, count) in zip(pairwise(widths), levels, strict=True)
        )
        self.pool = nn.MaxPool2d(2)
        self.classify = nn.Sequential(
            nn.Conv2d(widths[-1], width, 7, padding=3),
            nn.ReLU(),
            nn.Dropout(),
            nn.Conv2d(width, width, 1),
            nn.ReLU(),
            nn.Dropout(),
        )
        self.scores = nn.ModuleList(
            nn.Conv2d(channels, 1, 1) for channels in (width, widths[-2], widths[-3])
        )
        self.twice = nn.ModuleList(nn.ConvTranspose2d(1, 1, 4, 2, padding=1) for _ in range(2))
        self.last = nn.ConvTranspose2d(1, 1, 16, 8, padding=4)

    def forward(self, image: Tensor) -> Tensor:
        """Logits."""
        x, pooled = image, []
        for level in self.levels:
            x = self.pool(level(x))
            pooled.append(x)
        score = self.scores[0](self.classify(x))
        for up, head, kept in zip(self.twice, self.scores[1:], pooled[-2:-4:-1], strict=True):
            score = up(score) + head(kept)
        return self.last(score)


class SegNet(nn.Module):
    """Segmentation: float32[N,3,H,W] to one logit a pixel, [N,1,H,W].

    Upsampling repeats pixels; the paper's own puts them where pooling took them from.

    Args:
        levels: channels and convolutions of each level of the encoder.
    """

    def __init__(self, levels: tuple[tuple[int, int], ...] = _LEVELS) -> None:
        super().__init__()
        widths = (3, *(width for width, _ in levels))
        pairs = list(zip(pairwise(widths), levels, strict=True))
        self.down = nn.ModuleList(
            _level(before, after, count, normed=True) for (before, after), (_, count) in pairs
        )
        self.up = nn.ModuleList(
            _level(after, max(before, widths[1]), count, normed=True)
            for (before, after), (_, count) in pairs[::-1]
        )
        self.pool, self.unpool = nn.MaxPool2d(2), nn.Upsample(scale_factor=2)
        self.head = nn.Conv2d(widths[1], 1, 1)

    def forward(self, image: Tensor) -> Tensor:
        """Logits."""
        x = image
        for level in self.down:
            x = self.pool(level(x))
        for level in self.up:
            x = level(self.unpool(x))
        return self.head(x)
