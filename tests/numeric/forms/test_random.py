"""Random tensors: their numbers against numpy, their distributions, and masks that are dropout."""

import numpy as np
import onnx
import pytest

import odtc
from odtc.core.errors import UnsupportedError
from odtc.frontend.file.specialize import specialize
from odtc.frontend.normalize.pipeline import normalize
from odtc.frontend.operators.elements.dropout import set_dropout
from odtc.frontend.split.apart import places_of
from odtc.onnx_backend import run_model
from tests.numeric.conftest import text_model
from tests.numeric.layers.masks import philox

SHAPE = (3, 50)
SEED = 0x1234_5678_9ABC
COUNT = 4000
HALF: dict[str, np.ndarray] = {"zero": np.array(0, np.float32), "share": np.array(0.8, np.float32)}
UNIFORM = "u = RandomUniformLike <high: float = 1.0, low: float = 0.0> (h)"
# As PyTorch's exporters write dropout of channels and stochastic depth, and as people write it.
MASKS = {
    "less": f"{UNIFORM} c = Less (u, share) m = Cast <to = 1> (c)",
    "greater": f"{UNIFORM} c = Greater (share, u) m = Cast <to = 1> (c)",
    "above": f"{UNIFORM} c = GreaterOrEqual (u, fifth) m = CastLike (c, h)",
    "floor": f"{UNIFORM} a = Add (share, u) m = Floor (a)",
    "bernoulli": "s = Shape (h) e = Expand (share, s) m = Bernoulli (e)",
}
NO_MASKS = {
    "range": "u = RandomUniformLike <high: float = 2.0> (h) c = Less (u, share) "
    "m = Cast <to = 1> (c) y = Mul (h, m)",
    "integers": f"{UNIFORM} c = Less (u, share) i = Cast <to = 7> (c) m = Cast <to = 1> (i) "
    "y = Mul (h, m)",
    "chosen": f"{UNIFORM} c = Less (u, share) y = Where (c, h, zero)",
    "divisor": f"{UNIFORM} c = Less (u, share) m = Cast <to = 1> (c) y = Div (h, m)",
    "data": f"{UNIFORM} c = Less (u, h) m = Cast <to = 1> (c) y = Mul (h, m)",
}


def uniform(size: int, stream: int, step: int, seed: int = SEED) -> np.ndarray:
    """The numbers of a node, by numpy."""
    counter = np.stack(np.broadcast_arrays(np.arange(-(-size // 4)), step, stream, 1))
    words = philox(counter, (seed & 0xFFFFFFFF, seed >> 32)).reshape(-1)[:size]
    return (words >> 8) * 2.0**-24


def masked(form: str) -> onnx.ModelProto:
    constants = {**HALF, "fifth": np.array(0.2, np.float32)}
    text = f"{MASKS[form]} d = Div (m, share) y = Mul (h, d)"
    return text_model(text, SHAPE, constants=constants, opset=17)


def drawn(nodes: str, count: int, saved, **constants: np.ndarray) -> np.ndarray:
    """Evaluates a node `r = ...`."""
    text = f"{nodes} f = Cast <to = 1> (r) z = Mul (h, zero) s = ReduceSum (z) y = Add (f, s)"
    model = text_model(text, (1, 1), constants={**HALF, **constants}, opset=17)
    artifact = odtc.compile(saved(model), loss="mse", seed=SEED)
    result = artifact.trainer().evaluate(np.zeros((1, 1), np.float32))
    assert result.size == count
    return result


def test_numbers_follow_from_seed_step_and_node(saved) -> None:
    """The gradient of p is twice what lies above zero: so a step shows what it drew."""
    text = (
        "a = RandomUniform <shape = [3, 50], seed: float = 1.0> () "
        "b = RandomUniform <shape = [3, 50], seed: float = 1.0, low: float = -4.0, "
        "high: float = -2.0> () c = Add (a, b) y = Add (h, c)"
    )
    model = text_model(text, SHAPE)
    artifact = odtc.compile(saved(model), loss="mse", seed=SEED)
    assert any("random tensors: 2, the first -> a" in note for note in artifact.manifest.notes)
    trainer = artifact.trainer()
    x = np.zeros(SHAPE, np.float32)
    size = x.size

    def expected(step: int) -> np.ndarray:
        of = [uniform(size, stream, step).reshape(SHAPE) for stream in (0, 1)]
        return of[0] + 2 * of[1] - 4

    start = trainer.parameters()["p"]
    for _ in range(2):
        np.testing.assert_allclose(trainer.evaluate(x), start + expected(0), atol=1e-5)
    for step in range(2):
        before = trainer.parameters()["p"]
        trainer.step(x, x, lr=0.1)
        gradient = (before - trainer.parameters()["p"]) / 0.1
        wanted = 2 * (before + expected(step)).sum(0, keepdims=True) / size
        np.testing.assert_allclose(gradient, wanted, atol=1e-5)


def test_a_step_is_replayed_from_a_checkpoint(saved, tmp_path) -> None:
    path = saved(text_model("n = RandomNormalLike (h) y = Mul (h, n)", SHAPE))
    artifact = odtc.compile(path, seed=SEED)
    first, second = artifact.trainer(), artifact.trainer()
    x, y = np.ones(SHAPE, np.float32), np.arange(3)
    first.step(x, y, lr=0.1)
    first.save_checkpoint(tmp_path / "one.ckpt")
    losses = [first.step(x, y, lr=0.1) for _ in range(2)]
    second.load_checkpoint(tmp_path / "one.ckpt")
    assert [second.step(x, y, lr=0.1) for _ in range(2)] == losses
    assert losses[0] != losses[1]


def test_normal_numbers(saved) -> None:
    node = f"r = RandomNormal <mean: float = 3.0, scale: float = 2.0, shape = [1, {COUNT}]> ()"
    values = (drawn(node, COUNT, saved) - 3) / 2
    assert abs(values.mean()) < 5 / np.sqrt(COUNT)
    assert abs(values.std() - 1) < 5 / np.sqrt(2 * COUNT)
    # Shares within one, two and three standard deviations.
    for bound, share in ((1, 0.6827), (2, 0.9545), (3, 0.9973)):
        deviation = np.sqrt(share * (1 - share) / COUNT)
        assert abs((np.abs(values) < bound).mean() - share) < 5 * deviation
        assert abs((values < -bound).mean() - (1 - share) / 2) < 5 * deviation


def test_bernoulli_follows_each_probability(saved) -> None:
    chances = np.array([[0.0, 0.25, 1.0]], np.float32).repeat(COUNT, 0)
    ones = drawn("r = Bernoulli (q)", chances.size, saved, q=chances).reshape(-1, 3)
    assert not ones[:, 0].any()
    assert ones[:, 2].all()
    assert abs(ones[:, 1].mean() - 0.25) < 5 * np.sqrt(0.25 * 0.75 / COUNT)


def test_multinomial_draws_classes_by_their_probability(saved) -> None:
    """Logarithms need not add up to one; a class without probability is never drawn."""
    share = np.array([[0, 1, 0, 3, 0]], np.float32)
    with np.errstate(divide="ignore"):
        logs = np.log(share)
    node = f"r = Multinomial <sample_size = {COUNT}> (q)"
    classes = drawn(node, COUNT, saved, q=logs)
    assert set(np.unique(classes)) == {1, 3}
    assert abs((classes == 3).mean() - 0.75) < 5 * np.sqrt(0.25 * 0.75 / COUNT)


@pytest.mark.parametrize("form", MASKS)
@pytest.mark.parametrize("applied", [True, False])
def test_masks_are_found(form: str, applied: bool) -> None:
    graph = specialize(masked(form))
    set_dropout(graph, applied, SEED)
    kinds = [node.op_type for node in graph.nodes]
    assert kinds[:3] == ["Add", "RandomUniform" if applied else "ConstantOfShape", "Div"]
    (note,) = graph.notes
    assert "as dropout" in note
    assert ("evaluation takes their mean, 0.8" if applied else "dropout is off") in note


@pytest.mark.parametrize("form", NO_MASKS)
def test_what_is_no_mask_is_drawn(form: str) -> None:
    graph = specialize(text_model(NO_MASKS[form], SHAPE, constants=HALF))
    before = [node.op_type for node in graph.nodes]
    set_dropout(graph, True, SEED)
    assert [node.op_type for node in graph.nodes] == before
    assert "random tensors: 1" in graph.notes[0]


def test_a_mask_drops_in_steps_and_not_in_evaluation(saved) -> None:
    trainer = odtc.compile(saved(masked("less")), loss="mse", seed=SEED).trainer()
    x = np.ones(SHAPE, np.float32)
    before = trainer.parameters()["p"]
    np.testing.assert_allclose(trainer.evaluate(x), x + before, rtol=1e-6)
    loss = trainer.step(x, np.zeros(SHAPE, np.float32), lr=0.1)
    mask = (uniform(x.size, 0, 0) < 0.8).reshape(SHAPE) / 0.8
    assert loss == pytest.approx(float(np.mean(((x + before) * mask) ** 2)), rel=1e-5)
    gradient = (before - trainer.parameters()["p"]) / 0.1
    wanted = 2 * ((x + before) * mask**2).sum(0, keepdims=True) / x.size
    np.testing.assert_allclose(gradient, wanted, rtol=1e-4, atol=1e-6)


# What nn.AlphaDropout(0.2) multiplies and adds: PyTorch's saturation of SELU, and its moments.
SATURATED = -1.7580993408473766
SLOPE = (0.8 * (1 + 0.2 * SATURATED**2)) ** -0.5
ALPHA = {
    "slope": np.array(SLOPE, np.float32),
    "low": np.array(-SLOPE * SATURATED, np.float32),
    "shift": np.array(-SLOPE * SATURATED * 0.2, np.float32),
    "minus": np.array(-1, np.float32),
}


@pytest.mark.parametrize("dropout", [None, False])
def test_alpha_dropout_saturates_in_steps_and_not_in_evaluation(dropout, saved) -> None:
    text = (
        f"{MASKS['less']} n = Add (m, minus) l = Mul (n, low) b = Add (l, shift) "
        "f = Mul (m, slope) k = Mul (h, f) y = Add (k, b)"
    )
    model = text_model(text, SHAPE, constants={**HALF, **ALPHA}, opset=17)
    artifact = odtc.compile(saved(model), loss="mse", seed=SEED, dropout=dropout is None)
    trainer = artifact.trainer()
    x = np.ones(SHAPE, np.float32)
    before = trainer.parameters()["p"]
    np.testing.assert_allclose(trainer.evaluate(x), x + before, rtol=1e-5)
    loss = trainer.step(x, np.zeros(SHAPE, np.float32), lr=0.1)
    mask = (uniform(x.size, 0, 0) < 0.8).reshape(SHAPE)
    dropped = SLOPE * np.where(mask, x + before, SATURATED) - SLOPE * SATURATED * 0.2
    result, slope = (dropped, SLOPE * mask) if dropout is None else (x + before, np.ones(SHAPE))
    assert loss == pytest.approx(float(np.mean(result**2)), rel=1e-5)
    gradient = (before - trainer.parameters()["p"]) / 0.1
    wanted = 2 * (result * slope).sum(0, keepdims=True) / x.size
    np.testing.assert_allclose(gradient, wanted, rtol=1e-4, atol=1e-6)
    said = "an AlphaDropout: " + ("evaluation leaves it out" if dropout is None else "dropout is")
    assert any(said in note for note in artifact.manifest.notes)


def test_samples_of_a_micro_batch_have_numbers_of_their_own() -> None:
    model = text_model(
        "s = Shape <end = 1> (h) o = ConstantOfShape (s) n = RandomNormalLike (o) "
        "c = Unsqueeze (n, one) y = Mul (h, c)",
        (4, 6),
        constants={"one": np.array([1])},
    )
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "N"
    whole, part = (normalize(specialize(model, batch)) for batch in (4, 2))
    places = places_of(whole, part)
    assert places[whole.outputs[0]].axis == 0


def test_a_forward_run_draws_nothing() -> None:
    model = text_model("n = RandomNormalLike (h) y = Mul (h, n)", SHAPE)
    with pytest.raises(UnsupportedError, match="in training steps"):
        run_model(model, [np.ones(SHAPE, np.float32)])
