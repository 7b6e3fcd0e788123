"""`Normalize`: means and deviations of an input's channels, and how they are written as text."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from odtc.core.errors import UsageError
from odtc.core.options.arguments import plainly_made, read_fields
from odtc.core.options.kinds import NUMBER, TEXT, either, optional, several
from odtc.core.options.option_text import did_you_mean, parse_options

# A channel has `:` between its number and that of the next, as weights of classes have.
FORM = "mean=0.485:0.456:0.406,std=0.229:0.224:0.225"

_WHERE = "normalize"

_NUMBERS = either(
    NUMBER,
    several(NUMBER, "list of numbers", ""),
    hint="give a number for each channel, such as (0.485, 0.456, 0.406), or one for all",
)
_INPUT = optional(TEXT.with_hint("give the name of the input"))
_COLUMNS = several(TEXT, "list of names", "give the names of the features in their order")


@plainly_made
@dataclass(frozen=True)
class Normalize:
    """Normalisation of an input as a part of the model: (x - mean) / std.

    Images, [samples, channels, height, width] or [samples, height, width, channels] with 1, 3 or 4
    channels, are fed to the step as pixels: bytes (uint8) from 0 to 255. Means and deviations are
    those of pixels in [0, 1], as `torchvision.transforms.Normalize` takes them after `ToTensor`.
    Rows, [samples, features], are fed as floats as they are.

    Args:
        mean: mean of each channel or feature; or one number for all.
        std: standard deviation of each, above 0; as many as there are means.
        input: name of the input; None for the only one that is an image, or a row.
        columns: names of the features of rows, in their order: a table with other columns, or in
            another order, is refused in training. If the numbers are computed from data, the names
            are taken from it.

    Raises:
        UsageError: a deviation is not above 0, or the number of deviations is not that of the
            means.
    """

    mean: Sequence[float] | float
    std: Sequence[float] | float
    input: str | None = None
    columns: Sequence[str] = ()

    def __post_init__(self) -> None:
        read_fields(self, {"mean": _NUMBERS, "std": _NUMBERS, "input": _INPUT, "columns": _COLUMNS})
        for name in ("mean", "std"):
            given = getattr(self, name)
            numbers = given if isinstance(given, tuple) else (given,)
            object.__setattr__(self, name, tuple(map(float, numbers)))
        _check(self.means, self.deviations)
        if self.columns and len(self.columns) != len(self.means):
            raise UsageError(
                f"there are {len(self.columns)} columns, and {len(self.means)} means",
                where=_WHERE,
                hint="give as many of both",
            )

    @property
    def means(self) -> tuple[float, ...]:
        """The means, one for all or one for each channel."""
        return tuple(self.mean) if isinstance(self.mean, Sequence) else (self.mean,)

    @property
    def deviations(self) -> tuple[float, ...]:
        """The deviations, as many."""
        return tuple(self.std) if isinstance(self.std, Sequence) else (self.std,)

    def __str__(self) -> str:
        mean, std = (":".join(f"{n:g}" for n in each) for each in (self.means, self.deviations))
        return f"mean={mean},std={std}"


def _check(means: Sequence[float], deviations: Sequence[float]) -> None:
    if not means or len(means) != len(deviations):
        raise UsageError(
            f"mean has {len(means)} numbers, and std {len(deviations)}",
            where=_WHERE,
            hint="give as many of both: one for each channel, or one for all",
        )
    for value in deviations:
        if not value > 0 or not math.isfinite(1 / value):
            raise UsageError(
                f"std {value:g} is not a number above 0",
                where=_WHERE,
                hint="of what is the same in all samples, give 1",
            )


NAMED: Mapping[str, Normalize] = {
    # Those of torchvision's and timm's weights.
    "imagenet": Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
}


def parse_normalization(text: str) -> Normalize:
    """Reads `imagenet`, or `mean=0.5:0.5:0.5,std=0.25:0.25:0.25,input=NAME`.

    Raises:
        UsageError: the text is malformed, or names what there is not.
    """
    if text in NAMED:
        return NAMED[text]
    hint = f"write imagenet, {FORM}, or the path of data to compute them from"
    near = did_you_mean(text, NAMED)
    try:
        given = parse_options(f"normalize{{{text}}}")[1]
        unknown = given.keys() - {"mean", "std", "input"}
        if unknown:
            raise ValueError(f"there is no {min(unknown)!r}")
        read: dict[str, Any] = {key: _numbers(given[key]) for key in ("mean", "std")}
    except KeyError as error:
        raise UsageError(
            f"the normalisation {text!r} has no {error}", where=_WHERE, hint=hint
        ) from error
    except ValueError as error:
        raise UsageError(
            f"cannot read the normalisation {text!r}: {error}", where=_WHERE, hint=f"{near}{hint}"
        ) from error
    return Normalize(**read, input=given.get("input"))


def _numbers(text: str) -> tuple[float, ...]:
    return tuple(float(part) for part in text.split(":"))
