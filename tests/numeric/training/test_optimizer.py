"""SGD against `torch.optim.SGD`, and what frozen parameters mean."""

import numpy as np
import pytest

import odtc
from benchmarks.models.digits import digits_data, digits_model
from benchmarks.reference.pytorch import TorchTrainer
from tests.numeric.conftest import relative_error

BATCH = 16


@pytest.mark.parametrize(("momentum", "decay"), [(0.0, 0.0), (0.0, 0.1), (0.9, 0.0), (0.5, 0.01)])
def test_sgd_against_pytorch(momentum: float, decay: float, saved) -> None:
    model = digits_model()
    optimizer = odtc.SGD(momentum=momentum, weight_decay=decay)
    trainer = odtc.compile(saved(model), batch=BATCH, optimizer=optimizer).trainer()
    reference = TorchTrainer(model, lr=0.01, momentum=momentum, weight_decay=decay)
    x, y, *_ = digits_data()
    for step in range(5):
        part = slice(step * BATCH, (step + 1) * BATCH)
        trainer.step(x[part], y[part], lr=0.01)
        reference.step(x[part], y[part])
    expected = reference.parameters()
    for name, value in trainer.parameters().items():
        assert relative_error(value, expected[name]) < 1e-4, name


def test_learning_rate_is_an_argument_of_the_step(saved) -> None:
    trainer = odtc.compile(saved(digits_model()), batch=BATCH).trainer()
    x, y, *_ = digits_data()
    before = trainer.parameters()
    trainer.step(x[:BATCH], y[:BATCH], lr=0.0)
    unchanged = trainer.parameters()
    assert all(np.array_equal(before[name], unchanged[name]) for name in before)
    trainer.step(x[:BATCH], y[:BATCH], lr=0.1)
    once = {k: before[k] - v for k, v in trainer.parameters().items()}
    fresh = odtc.compile(saved(digits_model()), batch=BATCH).trainer()
    fresh.step(x[:BATCH], y[:BATCH], lr=0.2)
    for name, value in fresh.parameters().items():
        assert relative_error(before[name] - value, 2 * once[name]) < 1e-4, name


def test_params_glob_freezes_the_rest(saved) -> None:
    artifact = odtc.compile(saved(digits_model()), batch=BATCH, train="fc2.*")
    trainer = artifact.trainer()
    x, y, *_ = digits_data()
    before = trainer.parameters()
    trainer.step(x[:BATCH], y[:BATCH], lr=0.1)
    changed = {k for k, v in trainer.parameters().items() if not np.array_equal(v, before[k])}
    assert changed == {"fc2.weight", "fc2.bias"}
    whole = odtc.compile(saved(digits_model()), batch=BATCH)
    assert artifact.manifest.sizes.train_step < whole.manifest.sizes.train_step
