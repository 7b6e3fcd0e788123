"""Names of variables that say which ONNX tensor they come from.

Passes keep little of a graph but the names of its variables. So these carry numbers of tensors,
each after a letter: `t12_` is tensor 12 itself, `w12_` a value on the way to it, `g12_` its
gradient, and `h12_` a value on the way to that. `t12_w7_` comes from a kernel that computes tensor
7, too. TVM makes names unlike by digits after them, and calls adjoints `t12__adjoint`.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

_ADJOINT = "_adjoint"
_LETTERS = {(True, False): "t", (False, False): "w", (True, True): "g", (False, True): "h"}
_KINDS = {letter: kind for kind, letter in _LETTERS.items()}
_TAG = re.compile(r"([twgh])(\d+)_")
_TAGS = re.compile(rf"(?:{_TAG.pattern})+")


@dataclass(frozen=True)
class Tag:
    """The relation of a value to an ONNX tensor.

    Attributes:
        number: of the tensor, in a table that is kept elsewhere.
        exact: whether the value is the tensor, or its whole gradient.
        gradient: whether it has to do with the tensor's gradient.
    """

    number: int
    exact: bool = True
    gradient: bool = False

    @property
    def inexact(self) -> "Tag":
        """The tag of what is computed on the way to it."""
        return replace(self, exact=False)

    def __str__(self) -> str:
        return f"{_LETTERS[self.exact, self.gradient]}{self.number}_"


Tags = tuple[Tag, ...]


def name_of(tags: Iterable[Tag]) -> str:
    """The name of a variable with these tags."""
    return "".join(map(str, tags))


def tags_of(name: str) -> Tags:
    """The tags in a variable's name; none where it has another name."""
    found = _TAGS.match(name)
    if not found:
        return ()
    adjoint = _ADJOINT in name[found.end() :]
    return tuple(
        Tag(int(number), _KINDS[letter][0], adjoint or _KINDS[letter][1])
        for letter, number in _TAG.findall(found[0])
    )


def on_the_way(name: str) -> str:
    """The name of what is computed on the way to a variable of that name."""
    return name_of(tag.inexact for tag in tags_of(name))


def united(tags: Iterable[Tag]) -> Tags:
    """Tags without those of a tensor, or a gradient, that an earlier one names."""
    kept: dict[tuple[int, bool], Tag] = {}
    for tag in tags:
        kept.setdefault((tag.number, tag.gradient), tag)
    return tuple(kept.values())
