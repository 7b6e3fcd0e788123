"""What a module takes and returns: names, dimensions, and outputs that are something else too."""

from pathlib import Path

import torch
from torch import Tensor, nn

import odtc
from tests.torch_export.files import written


class Nested(nn.Module):
    """Takes what people take, and returns what they return."""

    def forward(self, x: Tensor, state: tuple[Tensor, Tensor], *, scale: float, mask=None) -> dict:
        h, c = state
        mask = 1.0 if mask is None else mask[:, None]
        return {"y": x * scale * mask, "states": (h + 1, c * 2), "count": 3, "words": x.argmax(1)}


def test_inputs_and_outputs_have_names(tmp_path: Path) -> None:
    state = torch.randn(2, 3, 4), torch.randn(2, 3, 4)
    example = {"x": torch.randn(3, 5), "state": state, "scale": 2.0, "mask": torch.ones(3)}
    axes = {"state_0": 1, "state_1": 1}
    exported = odtc.from_torch(Nested(), example, tmp_path / "model.onnx", batch_axis=axes)
    assert exported.inputs == {
        "x": "float32[batch, 5]",
        "state_0": "float32[2, batch, 4]",
        "state_1": "float32[2, batch, 4]",
        "mask": "float32[batch]",
    }
    assert exported.outputs == {
        "y": "float32[batch, 5]",
        "states_0": "float32[2, batch, 4]",
        "states_1": "float32[2, batch, 4]",
        "words": "int64[batch]",
    }
    assert exported.notes == ("left out, as it is no tensor: count (int)",)


def test_names_are_given(tmp_path: Path) -> None:
    model, _ = written(
        *(nn.Linear(3, 2), (torch.randn(2, 3),), tmp_path),
        input_names=["image"],
        output_names=["logits"],
    )
    assert [value.name for value in (*model.graph.input, *model.graph.output)] == [
        "image",
        "logits",
    ]


def test_the_last_dimension_of_each_input(tmp_path: Path) -> None:
    class Columns(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(3, 2), nn.Linear(4, 2)

        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return self.a(x.T) + self.b(y[0].T)

    example = torch.randn(3, 5), torch.randn(1, 4, 5)
    exported = odtc.from_torch(Columns(), example, tmp_path / "model.onnx", batch_axis=-1)
    assert list(exported.inputs.values()) == ["float32[3, batch]", "float32[1, 4, batch]"]


def test_a_fixed_batch(tmp_path: Path) -> None:
    exported = odtc.from_torch(
        nn.Linear(3, 2), torch.randn(4, 3), tmp_path / "model.onnx", batch_axis=None
    )
    assert exported.inputs == {"input": "float32[4, 3]"}


class Repeats(nn.Module):
    """Returns its input, a tensor twice, a weight, and a number."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        y = self.fc(x)
        return x, y, y, self.fc.weight, y.sum()


def test_outputs_that_are_something_else_too(tmp_path: Path) -> None:
    exported = odtc.from_torch(Repeats(), torch.randn(2, 3), tmp_path / "model.onnx")
    assert list(exported.outputs) == [f"output_{number}" for number in range(5)]
    assert exported.outputs["output_3"] == "float32[3, 3]"
    assert exported.outputs["output_4"] == "float32[]"


class Aux(nn.Module):
    """Has an output more while it trains."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.aux = nn.Linear(3, 3), nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        y = self.fc(x)
        return (y, self.aux(y)) if self.training else y


def test_an_output_of_training_alone(tmp_path: Path) -> None:
    exported = odtc.from_torch(Aux(), torch.randn(2, 3), tmp_path / "model.onnx")
    assert exported.outputs["output_1"] == "float32[batch, 2]"
    assert {"aux.weight", "aux.bias"} < {*exported.weights.parameters}
