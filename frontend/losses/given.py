"""A loss that the model computes itself."""

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from odtc.core.errors import UnsupportedError
from odtc.core.ir.place import Place
from odtc.core.options.arguments import plainly_made, read_fields
from odtc.core.options.kinds import PATH
from odtc.core.specs import TensorSpec
from odtc.frontend.losses.loss import Loss, require_float

if TYPE_CHECKING:
    from tvm import relax


@plainly_made
@dataclass(frozen=True)
class InModel(Loss):
    """The model's output is the loss, or a tensor whose mean is the loss.

    There are no labels: whatever the model compares with is among its inputs.
    """

    name: ClassVar[str] = "in-model"

    def label(self, output: TensorSpec, place: Place | None = None) -> None:
        """None.

        Raises:
            ModelError: the output is no float32 tensor.
        """
        require_float(self.name, output, rank=0)

    def parts(self) -> str:
        """None is known.

        Raises:
            UnsupportedError: always.
        """
        raise UnsupportedError(
            "the model computes the loss, and nothing shows that it is a mean over samples",
            hint="train an output with one of odtc's losses",
        )

    def divisor(
        self, builder: "relax.BlockBuilder", output: "relax.Var", label: "relax.Var | None"
    ) -> "relax.Expr":
        """Nothing shows it: each batch counts the same."""
        from odtc.frontend.losses.elements import number

        return number(1.0)

    def emit(
        self, builder: "relax.BlockBuilder", output: "relax.Var", label: "relax.Var | None"
    ) -> tuple["relax.Expr", "relax.Expr"]:
        """See `Loss.emit`."""
        from odtc.frontend.losses.elements import mean

        return mean(builder, output)


@plainly_made
@dataclass(frozen=True)
class LossGraph:
    """A loss that a separate ONNX file computes.

    Inputs of the file that are named like outputs of the model receive these; if there is none, its
    first input receives the model's first output. All other inputs are labels. Its first output is
    the loss.

    Attributes:
        path: path of the file.
    """

    path: str | os.PathLike[str]

    def __post_init__(self) -> None:
        read_fields(self, {"path": PATH})
