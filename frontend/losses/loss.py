"""Descriptions of losses. They know no TVM: it is imported where a loss is written in Relax."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, ClassVar

from odtc.core.errors import ModelError, UsageError
from odtc.core.ir.place import Place
from odtc.core.options.arguments import read_fields
from odtc.core.options.checked_options import LEAST_FLOAT32, MOST_FLOAT32
from odtc.core.options.kinds import FLAG, REAL, TEXT, WHOLE, Kind, either, optional, several
from odtc.core.specs import Classes, TensorSpec

if TYPE_CHECKING:
    from tvm import relax

MEAN, SUM, BATCH_MEAN = "mean", "sum", "batchmean"
# A mean over what the labels weigh, such as those that are not ignored: a part of a batch counts as
# much as its labels do.
COUNTED = "counted"

_FACTORS = optional(
    either(
        several(REAL, "list of numbers", ""),
        Kind(REAL.wanted, "", lambda value, at: (REAL.read(value, at),)),
        hint="give a number for each class, such as [1.0, 2.5]",
    )
)
# What a loss may have for options.
_FIELDS = {
    "label_smoothing": REAL,
    "ignore_index": optional(WHOLE),
    "weight": _FACTORS,
    "pos_weight": _FACTORS,
    "axis": WHOLE,
    "soft_labels": FLAG,
    "log_target": FLAG,
    "delta": REAL,
    "beta": REAL,
    "reduction": TEXT.with_hint("give, for example, 'mean' or 'sum'"),
}


@dataclass(frozen=True)
class Label:
    """The label that a loss compares an output with.

    Attributes:
        shape: as the user feeds it.
        dtype: numpy dtype name.
        classes: what integers it may hold; None where it holds floats.
        place: where the samples lie in it; None where nothing shows it.
    """

    shape: tuple[int, ...]
    dtype: str = "float32"
    classes: Classes | None = None
    place: Place | None = None


@dataclass(frozen=True)
class Loss(ABC):
    """A loss on one output of the model.

    Attributes:
        name: as it is written in text.
        closing: operators that the loss has inside; one that closes the model is dropped.
    """

    name: ClassVar[str]
    closing: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        read_fields(self, {each.name: _FIELDS[each.name] for each in fields(self)})

    @abstractmethod
    def label(self, output: TensorSpec, place: Place | None = None) -> Label | None:
        """The label that goes with an output; None where the loss takes none.

        Args:
            output: of the model.
            place: where the samples lie in it; None where nothing shows it.

        Raises:
            ModelError: the loss does not fit the output.
        """

    @abstractmethod
    def parts(self) -> str:
        """How the losses of equal parts of a batch make that of the whole.

        Returns:
            `mean`, `sum` or, where a part counts as much as its labels do, `counted`.

        Raises:
            UnsupportedError: they do not make it.
        """

    @abstractmethod
    def divisor(
        self, builder: "relax.BlockBuilder", output: "relax.Var", label: "relax.Var | None"
    ) -> "relax.Expr":
        """Adds what a mean divides the sum by to the open dataflow block: a float32 scalar.

        The arguments are those of `emit`.
        """

    @abstractmethod
    def emit(
        self, builder: "relax.BlockBuilder", output: "relax.Var", label: "relax.Var | None"
    ) -> tuple["relax.Expr", "relax.Expr"]:
        """Adds the loss to the open dataflow block.

        Args:
            builder: with an open dataflow block.
            output: of the model.
            label: an argument of the step, if the loss takes one.

        Returns:
            The loss, a float32 scalar, and its derivative by the output, of the output's shape;
            both unbound, so that the caller may bind the derivative first.
        """


def parts_of(reduction: str) -> str:
    """How the losses of equal parts make that of the whole, where no label counts more."""
    return SUM if reduction == SUM else MEAN


def require_float(loss: str, output: TensorSpec, rank: int = 1) -> None:
    """Checks that an output is float32 and has at least that rank.

    Raises:
        ModelError: it has not.
    """
    if output.dtype != "float32" or len(output.shape) < rank:
        wanted = "[batch, classes]" if rank > 1 else "[batch, ...]"
        raise ModelError(
            f"{loss} needs a float32 output {wanted}; the model gives {output}",
            where=f"output {output.name}",
            hint="cut the model at its logits, or choose another loss",
        )


def require_choice(option: str, value: str, choices: Sequence[str]) -> None:
    """Checks an option that is one of some words.

    Raises:
        UsageError: it is none of them.
    """
    if value not in choices:
        raise UsageError(f"{option} {value!r} is not one of: {', '.join(choices)}")


def require_positive(option: str, value: float) -> None:
    """Checks that an option is a finite number above 0, in float32 too.

    Raises:
        UsageError: it is not.
    """
    if not LEAST_FLOAT32 <= value <= MOST_FLOAT32:
        raise UsageError(f"{option} {value} is not a number above 0 in float32")


def require_factors(option: str, values: Sequence[float] | None) -> None:
    """Checks finite factors of at least 0, of which one is above it.

    Raises:
        UsageError: they are not.
    """
    if values is None:
        return
    wrong = [value for value in values if not 0.0 <= value <= MOST_FLOAT32]
    if wrong:
        raise UsageError(f"{option} {wrong[0]} is not a number of at least 0 in float32")
    if not any(values):
        raise UsageError(f"{option} {list(values)} has no number above 0")
