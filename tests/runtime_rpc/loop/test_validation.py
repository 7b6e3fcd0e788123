"""The loss of a validation is that of all its samples in one batch, of every loss that there is."""

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn import metrics as sklearn_metrics
from torch.nn import functional as F  # noqa: N812

import odtc
from odtc.core.errors import DataError, UsageError
from odtc.core.ir.place import Place
from odtc.core.specs import Classes
from odtc.runtime_rpc.loop.measured.loss_values import VALUES
from odtc.runtime_rpc.loop.measured.metric_sum import MetricSum
from odtc.runtime_rpc.loop.measured.metrics import METRICS, parse_metric
from tests.runtime_rpc.loop.models import BATCH, CLASSES, WIDTH, classed, step_of

RANDOM = np.random.default_rng(0)
N = 21
X = RANDOM.standard_normal((N, WIDTH)).astype(np.float32)
NUMBERS = RANDOM.random((N, CLASSES)).astype(np.float32)
SHARES = NUMBERS / NUMBERS.sum(axis=1, keepdims=True)
WHOLE = RANDOM.integers(0, CLASSES, N).astype(np.int32)
SOME = np.where(RANDOM.random(N) < 0.3, -100, WHOLE).astype(np.int32)
WEIGHTS = (0.5, 1.0, 2.0)
T = torch.tensor


# Of each loss: its labels, and what PyTorch computes of all samples.
CASES = {
    "cross-entropy": (WHOLE, lambda x, y: F.cross_entropy(x, y.long())),
    "cross-entropy{label-smoothing=0.1,weight=0.5:1.0:2.0,ignore-index=-100}": (
        SOME,
        lambda x, y: F.cross_entropy(
            x, y.long(), T(WEIGHTS).double(), label_smoothing=0.1, ignore_index=-100
        ),
    ),
    "cross-entropy{soft-labels=true,label-smoothing=0.2}": (
        SHARES,
        lambda x, y: F.cross_entropy(x, y, label_smoothing=0.2),
    ),
    "cross-entropy{reduction=sum}": (
        WHOLE,
        lambda x, y: F.cross_entropy(x, y.long(), reduction="sum") * BATCH / N,
    ),
    "nll{weight=0.5:1.0:2.0}": (
        WHOLE,
        lambda x, y: F.nll_loss(x, y.long(), T(WEIGHTS).double()),
    ),
    "bce-with-logits{pos-weight=0.5:1.0:2.0}": (
        (NUMBERS > 0.5).astype(np.float32),
        lambda x, y: F.binary_cross_entropy_with_logits(x, y, pos_weight=T(WEIGHTS).double()),
    ),
    "mse": (NUMBERS, F.mse_loss),
    "mse{reduction=sum}": (NUMBERS, lambda x, y: F.mse_loss(x, y, reduction="sum") * BATCH / N),
    "l1": (NUMBERS, F.l1_loss),
    "huber{delta=0.3}": (NUMBERS, lambda x, y: F.huber_loss(x, y, delta=0.3)),
    "smooth-l1{beta=0.3}": (NUMBERS, lambda x, y: F.smooth_l1_loss(x, y, beta=0.3)),
    "kl-div": (SHARES, lambda x, y: F.kl_div(x, y, reduction="batchmean")),
    "kl-div{log-target=true,reduction=mean}": (
        np.log(SHARES),
        lambda x, y: (y.exp() * (y - x)).mean(),
    ),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("validation")


def test_every_loss_has_a_case():
    assert {text.partition("{")[0] for text in CASES} | {"in-model"} == VALUES.keys()


@pytest.mark.parametrize("loss", CASES)
def test_the_loss_of_a_validation_is_that_of_pytorch(folder: Path, loss: str):
    """The last batch is not full; nothing is trained, with a learning rate of 0."""
    labels, reference = CASES[loss]
    trainer = step_of(folder, loss).trainer(threads=1)
    history = trainer.fit((X[:BATCH], labels[:BATCH]), lr=0.0, validation=(X, labels))
    wanted = reference(T(trainer.evaluate(X)).double(), T(labels).double())
    assert history["val_loss"] == [pytest.approx(float(wanted), rel=1e-9)]
    # The step's own, of the same samples.
    again = trainer.fit((X[:BATCH], labels[:BATCH]), lr=0.0, validation=(X[:BATCH], labels[:BATCH]))
    assert again["val_loss"][0] == pytest.approx(again["loss"][0], rel=1e-5)


def test_the_losses_of_several_outputs_are_added_up(tmp_path: Path):
    class Two(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = torch.nn.Linear(WIDTH, 3), torch.nn.Linear(WIDTH, 2)

        def forward(self, x: torch.Tensor):
            return self.a(x), self.b(x)

    odtc.from_torch(Two(), (torch.zeros(BATCH, WIDTH),), tmp_path / "m.onnx")
    loss = {"output_0": "cross-entropy", "output_1": (0.3, "mse")}
    trainer = odtc.compile(tmp_path / "m.onnx", batch=BATCH, loss=loss).trainer(threads=1)
    labels = {"output_0": WHOLE, "output_1": NUMBERS[:, :2]}
    whole = {name: array[:16] for name, array in labels.items()}
    history = trainer.fit(
        (X[:16], whole),
        lr=0.0,
        validation=(X, labels),
        metrics="accuracy",
    )
    scores = {name: T(trainer.evaluate(X, name)).double() for name in labels}
    wanted = F.cross_entropy(scores["output_0"], T(WHOLE).long()) + 0.3 * F.mse_loss(
        scores["output_1"], T(NUMBERS[:, :2]).double()
    )
    assert history["val_loss"] == [pytest.approx(float(wanted), rel=1e-9)]
    assert history["val_accuracy"] == [
        float((scores["output_0"].argmax(1).numpy() == WHOLE).mean())
    ]


class Inside(torch.nn.Module):
    """A model that computes its loss."""

    def __init__(self, with_scores: bool) -> None:
        super().__init__()
        self.a, self.with_scores = torch.nn.Linear(WIDTH, CLASSES), with_scores

    def forward(self, x: torch.Tensor, target: torch.Tensor):
        loss = F.mse_loss(self.a(x), target)
        return (self.a(x), loss) if self.with_scores else loss


def test_a_loss_in_the_model_is_that_of_whole_batches(tmp_path: Path):
    examples = torch.zeros(BATCH, WIDTH), torch.zeros(BATCH, CLASSES)
    odtc.from_torch(Inside(False), examples, tmp_path / "m.onnx")
    trainer = odtc.compile(tmp_path / "m.onnx", batch=BATCH, loss="in-model").trainer(threads=1)
    data = {"x": X, "target": NUMBERS}
    with pytest.warns(UserWarning, match="the last 5 of 21 samples of the validation data are"):
        history = trainer.fit(data, lr=0.0, steps=1, validation=data)
    parts = [slice(0, 8), slice(8, 16)]
    wanted = [trainer.evaluate({k: v[part] for k, v in data.items()}) for part in parts]
    assert history["val_loss"] == [pytest.approx(np.mean(wanted), rel=1e-6)]
    few = {name: array[:5] for name, array in data.items()}
    with pytest.raises(DataError, match="the validation data holds 5 samples; nothing shows"):
        trainer.fit(data, lr=0.0, steps=1, validation=few)


def measured(text: str, scores: np.ndarray, labels: np.ndarray, classes: Classes | None) -> float:
    """A metric, added up over parts of different sizes."""
    found = MetricSum(parse_metric(text), classes, (Place(0), Place(0)))
    for part in (slice(0, 8), slice(8, 20), slice(20, None)):
        found.add(scores[part], labels[part])
    return found.value()


SCORES = RANDOM.standard_normal((200, 5)).astype(np.float32)
LABELS = np.where(RANDOM.random(200) < 0.5, SCORES.argmax(1), RANDOM.integers(0, 5, 200))
PREDICTED = SCORES.argmax(1)
LOGITS, TRUTH = SCORES[:, 0], (SCORES[:, 0] + SCORES[:, 1] > 0).astype(np.float32)
OF_CLASSES = {
    "accuracy": sklearn_metrics.accuracy_score(LABELS, PREDICTED),
    "top-k{k=3}": sklearn_metrics.top_k_accuracy_score(LABELS, SCORES, k=3),
    "f1": sklearn_metrics.f1_score(LABELS, PREDICTED, average="macro"),
    "iou": sklearn_metrics.jaccard_score(LABELS, PREDICTED, average="macro"),
    "perplexity": float(F.cross_entropy(T(SCORES).double(), T(LABELS)).exp()),
}
OF_NUMBERS = {
    "mse": sklearn_metrics.mean_squared_error(TRUTH, LOGITS),
    "mae": sklearn_metrics.mean_absolute_error(TRUTH, LOGITS),
    "r2": sklearn_metrics.r2_score(TRUTH, LOGITS.astype(np.float64)),
    "accuracy": sklearn_metrics.accuracy_score(TRUTH, LOGITS > 0),
    "f1": sklearn_metrics.f1_score(TRUTH, LOGITS > 0),
    "iou": sklearn_metrics.jaccard_score(TRUTH, LOGITS > 0),
}


def test_every_metric_has_a_case():
    assert {text.partition("{")[0] for text in {**OF_CLASSES, **OF_NUMBERS}} == METRICS.keys()


@pytest.mark.parametrize("text", OF_CLASSES)
def test_a_metric_of_classes_is_that_of_scikit_learn(text: str):
    labels = np.append(LABELS, [-1, -1])
    scores = np.concatenate([SCORES, SCORES[:2]])
    found = measured(text, scores, labels, Classes(5, 1, -1))
    assert found == pytest.approx(OF_CLASSES[text], rel=1e-9)


@pytest.mark.parametrize("text", OF_CLASSES)
def test_classes_may_lie_along_another_axis(text: str):
    """As of a segmentation: [samples, classes, width], labels [samples, width]."""
    scores = SCORES.reshape(50, 4, 5).swapaxes(1, 2)
    found = measured(text, scores, LABELS.reshape(50, 4), Classes(5, 1))
    assert found == pytest.approx(OF_CLASSES[text], rel=1e-9)


@pytest.mark.parametrize("text", OF_NUMBERS)
def test_a_metric_of_numbers_is_that_of_scikit_learn(text: str):
    found = measured(text, LOGITS[:, None], TRUTH[:, None], None)
    assert found == pytest.approx(OF_NUMBERS[text], rel=1e-6)


def test_averages_of_the_weights_are_validated(tmp_path: Path):
    update = odtc.Update("sgd", ema=0.9)
    trainer = step_of(tmp_path, "cross-entropy", optimizer=update).trainer(threads=1)
    data = classed(16)
    history = trainer.fit(data, lr=0.5, epochs=3, validation=data, metrics="perplexity", ema=True)
    logits = T(trainer.evaluate(data[0], ema=True)).double()
    wanted = F.cross_entropy(logits, T(data[1]).long())
    assert history["val_loss"][-1] == pytest.approx(float(wanted), rel=1e-9)
    assert history["val_perplexity"][-1] == pytest.approx(float(wanted.exp()), rel=1e-9)


@pytest.mark.parametrize("loss", ["mse", "cross-entropy{soft-labels=true}"])
def test_classes_are_not_guessed_from_numbers(tmp_path: Path, loss: str):
    """Above 0 an output of a sigmoid is always: an accuracy of 0.44 was told where it was 0.98."""
    trainer = step_of(tmp_path, loss).trainer(threads=1)
    for metric in ("accuracy", "f1", "iou"):
        with pytest.raises(UsageError, match=f"the metric {metric} needs labels that are class n"):
            trainer.fit((X, SHARES), lr=0.0, steps=1, validation=(X, SHARES), metrics=metric)


def test_logits_of_yes_or_no_have_classes(tmp_path: Path):
    trainer = step_of(tmp_path, "bce-with-logits").trainer(threads=1)
    truth = (NUMBERS > 0.5).astype(np.float32)
    history = trainer.fit((X, truth), lr=0.0, steps=1, validation=(X, truth), metrics="accuracy")
    assert history["val_accuracy"] == [((trainer.evaluate(X) > 0) == truth).mean()]
    with pytest.raises(UsageError, match="the metric mse needs labels that are numbers of the"):
        trainer.fit((X, truth), lr=0.0, steps=1, validation=(X, truth), metrics="mse")


def test_a_metric_of_the_users_gives_a_number(tmp_path: Path):
    def errors(scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
        return scores - labels

    trainer = step_of(tmp_path, "mse").trainer(threads=1)
    with pytest.raises(UsageError, match=r"the metric errors gives a numpy.ndarray of shape"):
        trainer.fit((X, NUMBERS), lr=0.0, steps=1, validation=(X, NUMBERS), metrics=errors)
