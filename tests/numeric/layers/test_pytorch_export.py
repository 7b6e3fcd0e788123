"""Models as PyTorch's own exporter writes them, trained against the module that they came from."""

import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import odtc
from tests.numeric.conftest import relative_error

SHAPE = (2, 1, 20, 20)
BATCH = 8
STEPS = 3


class LeNet(nn.Module):
    """Convolutions, pooling, and a view by the size of the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5, padding=2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(144, 30)
        self.fc2 = nn.Linear(30, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = nn.functional.max_pool2d(torch.relu(self.conv1(x)), 2)
        x = nn.functional.max_pool2d(torch.relu(self.conv2(x)), 2)
        x = x.view(x.size(0), -1)
        return self.fc2(torch.tanh(self.fc1(x)))


class Residual(nn.Module):
    """Batch normalisation, a depthwise convolution, a residual sum and a mean."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(8)
        self.depthwise = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.fc = nn.Linear(8, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.norm(self.conv(x)))
        x = x + torch.sigmoid(self.depthwise(x))
        return self.fc(x.mean((2, 3)))


EXPORTS = {
    "fixed-batch": {"training": torch.onnx.TrainingMode.PRESERVE},
    "symbolic-batch": {
        "training": torch.onnx.TrainingMode.PRESERVE,
        "dynamic_axes": {"x": {0: "N"}},
    },
}


@pytest.mark.parametrize("export", EXPORTS)
# In eval mode the exporter folds the batch normalisation away, and there is nothing to compare.
@pytest.mark.parametrize(
    ("make", "training"),
    [pytest.param(LeNet, False, marks=pytest.mark.slow), (LeNet, True), (Residual, True)],
)
def test_three_steps(make: type[nn.Module], training: bool, export: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    module = make().train(training)
    path = tmp_path / "model.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module,
            (torch.zeros(SHAPE),),
            path,
            dynamo=False,
            do_constant_folding=False,
            input_names=["x"],
            **EXPORTS[export],
        )
    # The export in training mode runs the module, which moves the running statistics.
    trainer = odtc.compile(path, batch=BATCH, optimizer=odtc.SGD(momentum=0.9)).trainer()
    module.train()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
    rng = np.random.default_rng(0)
    for _ in range(STEPS):
        x = rng.standard_normal((BATCH, *SHAPE[1:])).astype(np.float32)
        y = rng.integers(0, 10, BATCH)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(module(torch.tensor(x)), torch.tensor(y))
        loss.backward()
        optimizer.step()
        assert trainer.step(x, y, lr=0.1) == pytest.approx(loss.item(), rel=1e-4)
    found = trainer.parameters()
    for name, value in module.named_parameters():
        assert relative_error(found[name], value.detach().numpy()) < 1e-4, name
