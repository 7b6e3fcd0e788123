"""How a file is compiled and fed, where it does not say so itself."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Options:
    """Those of `odtc compile` that a file needs.

    Attributes:
        batch: samples in a step.
        shape: sizes of dimensions that the file leaves open.
        batch_axes: where samples lie, where the file does not show it.
        set_inputs: values of inputs that are not fed.
        loss: on the first output.
        high: integer inputs are drawn below it.
        scale: of floating-point inputs.
    """

    batch: int | None = 2
    shape: Mapping[str, Any] = field(default_factory=dict)
    batch_axes: Mapping[str, int | None] = field(default_factory=dict)
    set_inputs: Mapping[str, Any] = field(default_factory=dict)
    loss: str = "mse"
    high: int = 2
    scale: float = 1.0

    def arguments(self) -> dict[str, Any]:
        """As `odtc.compile` takes them."""
        return {
            "batch": self.batch,
            "shape": self.shape,
            "batch_axis": self.batch_axes,
            "set": self.set_inputs,
            "loss": self.loss,
        }

    def text(self) -> str:
        """As the command line takes them."""
        sizes = {
            name: "x".join(map(str, size)) if isinstance(size, tuple) else size
            for name, size in self.shape.items()
        }
        axes = {name: "none" if axis is None else axis for name, axis in self.batch_axes.items()}
        parts = [f"--batch {self.batch}"] if self.batch else []
        for option, values in (("shape", sizes), ("batch-axis", axes), ("set", self.set_inputs)):
            if values:
                parts.append(" ".join([f"--{option}", *(f"{k}={v}" for k, v in values.items())]))
        return " ".join([*parts, f"--loss {self.loss}"])


@dataclass(frozen=True)
class Case:
    """A file and how it is compiled.

    Attributes:
        name: of the package or tool, and the file.
        path: of the file.
        options: of `odtc compile`.
        reference: the file that onnxruntime runs instead, as this one is for training: the same
            model for inference, whose inputs and outputs may have other names.
    """

    name: str
    path: str
    options: Options
    reference: str = ""
