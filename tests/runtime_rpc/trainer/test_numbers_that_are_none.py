"""Numbers of inputs that are not finite are said wherever they are fed, once by what feeds them."""

import warnings
from pathlib import Path

import numpy as np
import pytest
from onnx import parser

import odtc
from tests.runtime_rpc.loop.models import BATCH, classed, step_of

X, Y = classed(BATCH)
WRONG = X.copy()
WRONG[3, 1] = np.nan
SAID = f"1 of {X.size} numbers of input are not finite, the first is nan in sample 3"


@pytest.fixture(scope="module")
def trainer(tmp_path_factory: pytest.TempPathFactory) -> odtc.Trainer:
    return step_of(tmp_path_factory.mktemp("numbers"), "cross-entropy").trainer(threads=1)


@pytest.mark.parametrize("form", [WRONG, WRONG.tolist(), {"input": WRONG}])
@pytest.mark.parametrize("method", ["evaluate", "predict"])
def test_an_evaluation_says_them_as_a_prediction_does(trainer: odtc.Trainer, method: str, form):
    with pytest.warns(UserWarning, match=SAID) as told:
        getattr(trainer, method)(form)
    assert len(told) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trainer.evaluate(X)


def test_a_sum_that_overflows_is_no_such_number(trainer: odtc.Trainer):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trainer.evaluate(np.full_like(X, 3e38))


def masked(folder: Path) -> odtc.Trainer:
    """A step whose loss does not show a NaN: the model replaces it."""
    path = folder / "masked.onnx"
    path.write_bytes(
        parser.parse_model(
            """<ir_version: 10, opset_import: ["": 18]>
            g (float[4, 3] x) => (float[4, 2] y) <float[3, 2] w = {1, 2, 3, 4, 5, 6}> {
              zero = Constant <value_float = 0.0> ()
              a = IsNaN (x)  c = IsInf (x)  b = Or (a, c)  u = Where (b, zero, x)
              y = MatMul (u, w)
            }"""
        ).SerializeToString()
    )
    return odtc.compile(path, loss="cross-entropy").trainer(threads=1)


def test_a_step_says_once_what_its_loss_hides(tmp_path: Path):
    trainer = masked(tmp_path)
    x, y = np.ones((4, 3), np.float32), np.zeros(4, np.int32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trainer.step(x, y, lr=0.1)
        # A mask of attention has them.
        trainer.step(np.where(np.eye(4, 3) > 0, -np.inf, x).astype(np.float32), y, lr=0.1)
    x[2, 0] = np.nan
    with pytest.warns(UserWarning, match="step 3: 1 of 12 numbers of x are not finite.*sample 2"):
        trainer.step(x, y, lr=0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isfinite([*trainer.train([(x, y)], lr=0.1)]).all()
