"""A trained model comes out for inference, and is run before it takes its name."""

import sys
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper, parser

import odtc
from odtc.cli.training.trained_model import Export, export_model
from odtc.core.errors import NumericError, ParityError
from odtc.core.ir.place import Place
from odtc.runtime_rpc.export import check
from odtc.runtime_rpc.export.comparison import difference, samples_of
from odtc.runtime_rpc.trainer import Trainer

BATCH = 4
_HEAD = '<ir_version: 8, opset_import: ["" : 15]>\n'
# As an exporter writes it for training; its closing Softmax is in the loss, too, and no loss needs
# the other outputs.
TRAINING = """g (int64[N, 3] ids) => (float[N, 3] y, float[N, 5] aux, int64[N] label)
<float ratio = {0.5}, bool yes = {1}> {
    e = Gather (table, ids) f = Flatten (e) h = MatMul (f, w)
    n, rm, rv = BatchNormalization <training_mode = 1> (h, s, b, m, v)
    d, mask = Dropout (n, ratio, yes) aux = Relu (d) z = MatMul (aux, u)
    y = Softmax (z) label = ArgMax <axis = 1, keepdims = 0> (z)
}"""
SPELLED_OUT = """g (float[N, 6] x) => (float[N, 3] y) <float e = {0.00001}> {
    h = MatMul (x, w) mean = ReduceMean <axes = [0]> (h) c = Sub (h, mean) q = Mul (c, c)
    var = ReduceMean <axes = [0]> (q) shifted = Add (var, e) root = Sqrt (shifted)
    n = Div (c, root) y = MatMul (n, u)
}"""
FIXED = """g (float[2, 6] x, int64[2] t) => (float loss, float[2, 3] z) {
    h = MatMul (x, w) z = MatMul (h, u) loss = SoftmaxCrossEntropyLoss (z, t)
}"""
RNG = np.random.default_rng(0)
IDS, LABELS = RNG.integers(0, 7, (BATCH, 3)), RNG.integers(0, 3, BATCH)
X = RNG.standard_normal((BATCH, 6), np.float32)


def saved(text: str, path: Path) -> Path:
    """A model of that text, with weights; each is of the shape that its readers want."""
    model = parser.parse_model(_HEAD + text)
    rng = np.random.default_rng(1)
    sizes = {"table": (7, 2), "w": (6, 5), "u": (5, 3), "s": 5, "b": 5, "m": 5, "v": 5}
    read = {name for node in model.graph.node for name in node.input}
    for name in filter(read.__contains__, sizes):
        value = rng.standard_normal(sizes[name]).astype(np.float32)
        value = np.abs(value) if name == "v" else value
        model.graph.initializer.append(numpy_helper.from_array(value, name))
    onnx.save(model, path)
    return path


def in_onnxruntime(path: Path, **feeds: np.ndarray) -> list[np.ndarray]:
    """The outputs of a file."""
    return onnxruntime.InferenceSession(path).run(None, feeds)


@pytest.fixture(scope="module")
def trainer(tmp_path_factory: pytest.TempPathFactory) -> Trainer:
    path = saved(TRAINING, tmp_path_factory.mktemp("export") / "model.onnx")
    update = odtc.Update(odtc.SGD(), ema=0.5)
    made = odtc.compile(path, batch=BATCH, optimizer=update).trainer(threads=1)
    for _ in range(3):
        made.step(IDS, LABELS, lr=0.5)
    return made


@pytest.mark.parametrize("ema", [False, True])
def test_the_file_runs_as_the_step_evaluates(trainer: Trainer, tmp_path: Path, ema: bool) -> None:
    path = tmp_path / "trained.onnx"
    with pytest.warns(UserWarning, match="`evaluate` does not give aux, label"):
        exported = trainer.export_onnx(path, ema=ema)
    assert str(exported).startswith(
        f"exported {path}: inference form (1 batch normalisation by running statistics, 1 dropout "
        f"left out), run by onnxruntime {onnxruntime.__version__} at batch 1 and 4, largest "
    )
    assert exported.difference is not None
    assert 0 < exported.difference < 1e-5
    logits = trainer.evaluate(IDS, ema=ema)
    for row in range(BATCH):
        first, again = (in_onnxruntime(path, ids=IDS[row : row + 1]) for _ in range(2))
        assert all(map(np.array_equal, first, again))
        scores = np.exp(logits[row]) / np.exp(logits[row]).sum()
        np.testing.assert_allclose(first[0][0], scores, rtol=1e-5)
        assert first[2] == logits[row].argmax()
    graph = onnx.load(path).graph
    assert [value.name for value in graph.output] == ["y", "aux", "label"]
    assert "Dropout" not in {node.op_type for node in graph.node}


@pytest.mark.filterwarnings("ignore:export")
def test_without_onnxruntime_onnx_runs_it(
    trainer: Trainer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    exported = trainer.export_onnx(tmp_path / "trained.onnx")
    assert exported.engine == f"ONNX's reference {onnx.__version__}"
    assert sorted(exported.batches) == [1, BATCH]
    assert exported.difference is not None
    assert exported.difference < 1e-5
    monkeypatch.setattr(check, "_SECONDS", 0.0)
    with pytest.warns(UserWarning, match="batch 4 was left out: it would take ONNX's reference"):
        assert trainer.export_onnx(tmp_path / "trained.onnx").batches == (1,)


def checked(trainer: Trainer, path: Path, node: onnx.NodeProto | None = None) -> check.ExportCheck:
    """A file against the step, perhaps with another node in front of its first output."""
    model = onnx.load(path)
    if node is not None:
        (last,) = (each for each in model.graph.node if "y" in each.output)
        last.output[0] = node.input[0]
        model.graph.node.append(node)
        onnx.save(model, path)
    evaluate = partial(trainer._evaluations.all, instead={})
    return check.check_file(path, model, trainer._manifest, evaluate, "the file")


def test_live_dropout_is_seen_by_two_runs(trainer: Trainer, tmp_path: Path) -> None:
    """The training form is what an export was that left it in."""
    trainer.export_onnx(tmp_path / "again.onnx", training=True)
    with pytest.raises(
        ParityError, match=r"differs (between two runs|from evaluate),? at batch 4: by "
    ):
        checked(trainer, tmp_path / "again.onnx")


def test_what_draws_random_numbers_is_not_compared(trainer: Trainer, tmp_path: Path) -> None:
    trainer.export_onnx(path := tmp_path / "trained.onnx", verify=False)
    noise = onnx.helper.make_node("RandomNormalLike", ["hidden"], ["y"], "noise")
    found = checked(trainer, path, noise)
    assert (found.batches, found.difference) == ([4, 1], None)
    assert "noise (RandomNormalLike): different numbers in each run" in found.notes[1]


def test_a_file_that_no_engine_takes_or_runs(trainer: Trainer, tmp_path: Path) -> None:
    path = tmp_path / "trained.onnx"
    trainer.export_onnx(path, verify=False)
    found = checked(trainer, path, onnx.helper.make_node("Nothing", ["hidden"], ["y"], domain="no"))
    assert [found.engine, found.batches, found.difference] == ["", [], None]
    assert [note.rpartition(";")[2] for note in found.notes] == [" the file was not run"] * 2
    trainer.export_onnx(path, verify=False)
    shape = onnx.helper.make_node("MatMul", ["hidden", "hidden"], ["y"])
    with pytest.raises(ParityError, match="the exported file does not run: the file does not run"):
        checked(trainer, path, shape)


def test_a_file_that_is_too_large_for_the_machine_is_not_run(tmp_path: Path) -> None:
    with open(tmp_path / "large", "wb") as file:
        file.truncate(1 << 40)
    assert check._too_large(tmp_path / "large", 0).startswith("not run: that takes about 3,298")
    assert check._too_large(tmp_path / "large", 1 << 40).startswith(
        "not run: that takes about 6,597"
    )


def test_the_training_form_stays_as_it_was(trainer: Trainer, tmp_path: Path) -> None:
    exported = trainer.export_onnx(tmp_path / "again.onnx", training=True)
    assert str(exported).endswith("again.onnx: training form, not checked")
    before = onnx.load(trainer._bundle.model).graph.node
    assert list(onnx.load(tmp_path / "again.onnx").graph.node) == list(before)


@pytest.mark.filterwarnings("ignore:export")
def test_a_file_that_computes_something_else_is_not_written(
    trainer: Trainer, tmp_path: Path
) -> None:
    """Another epsilon stands for any fault between the step and the file; the Softmax hides it."""
    scores = trainer.parameters()["u"]
    trainer.set_parameters({"u": scores * 1e5})
    path, skeleton = tmp_path / "trained.onnx", trainer._bundle.model
    path.write_text("an older file")
    before = skeleton.read_bytes()
    model = onnx.load_from_string(before)
    norm = next(node for node in model.graph.node if node.op_type == "BatchNormalization")
    norm.attribute.append(onnx.helper.make_attribute("epsilon", 0.01))
    skeleton.write_bytes(model.SerializeToString())
    try:
        with pytest.raises(ParityError, match=r"output 'y' .* from evaluate, at batch 4: by 0\.0"):
            trainer.export_onnx(path)
        assert path.read_text() == "an older file"
        assert list(tmp_path.iterdir()) == [path]
        assert "not checked" in str(trainer.export_onnx(path, verify=False))
        # A run that keeps no checkpoint does not lose what it trained.
        asked = Export(
            *(path, None, None, None, None, None),
            ema=False,
            training=False,
            merge=True,
            verify=True,
        )
        with pytest.raises(ParityError):
            export_model(trainer, asked, checkpoint=None)
        trainer.load_checkpoint(f"{path}.ckpt")
    finally:
        skeleton.write_bytes(before)
        trainer.set_parameters({"u": scores})


def test_weights_that_are_not_finite_are_not_written(trainer: Trainer, tmp_path: Path) -> None:
    weight = trainer.parameters()["u"]
    broken = weight.copy()
    broken[1, 2] = np.nan
    trainer.set_parameters({"u": broken})
    with pytest.raises(NumericError, match="1 of 15 elements of 'u' are not finite, such as nan"):
        trainer.export_onnx(tmp_path / "trained.onnx")
    assert not list(tmp_path.iterdir())
    trainer.set_parameters({"u": weight})


def test_statistics_that_an_exporter_spelled_out_are_refused(tmp_path: Path) -> None:
    """They are of the batch in evaluation, too; a sample alone has others."""
    made = odtc.compile(saved(SPELLED_OUT, tmp_path / "m.onnx"), batch=BATCH).trainer(threads=1)
    with pytest.raises(ParityError, match="from what it is among 4, at batch 1") as caught:
        made.export_onnx(tmp_path / "trained.onnx")
    assert "statistics that its exporter spelled out" in str(caught.value)


def test_a_batch_that_the_file_fixes_stays(tmp_path: Path) -> None:
    """Compiled for another one, with the loss inside: scores are compared, the loss is run."""
    path = saved(FIXED, tmp_path / "m.onnx")
    made = odtc.compile(path, batch=BATCH, loss=odtc.InModel()).trainer(threads=1)
    made.step({"x": X, "t": LABELS}, lr=0.1)
    with pytest.warns(UserWarning, match="the batch of the file is 2, as in the model"):
        exported = made.export_onnx(tmp_path / "trained.onnx")
    assert exported.batches == (2,)
    scores = in_onnxruntime(tmp_path / "trained.onnx", x=X[:2], t=LABELS[:2])[1]
    np.testing.assert_allclose(scores, made.evaluate({"x": X})[:2], rtol=1e-5)


def test_a_batch_of_minus_one_is_an_open_one(tmp_path: Path) -> None:
    """Exporters write so, and onnxruntime reads so."""
    path = saved(
        FIXED.replace("int64[2] t", "int64[N] t").replace("float[2, ", "float[N, "),
        tmp_path / "m.onnx",
    )
    model = onnx.load(path)
    for value in (*model.graph.input, *model.graph.output):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param == "N":
                dim.dim_value = -1
    onnx.save(model, path)
    made = odtc.compile(path, batch=BATCH, loss=odtc.InModel()).trainer(threads=1)
    with pytest.warns(UserWarning, match="loss is of a whole batch"):
        exported = made.export_onnx(tmp_path / "trained.onnx")
    assert exported.batches == (BATCH, 1)
    scores = in_onnxruntime(tmp_path / "trained.onnx", x=X[:3], t=LABELS[:3])[1]
    np.testing.assert_allclose(scores, made.evaluate({"x": X})[:3], rtol=1e-5)


@pytest.mark.parametrize(("shift", "is_small"), [(-13.0, False), (-25.0, True)])
def test_a_sigmoid_of_little_is_right_in_all(shift: float, is_small: bool, tmp_path: Path) -> None:
    """Onnxruntime's is off by per cents of so small a value: no fault of the file."""
    text = """g (float[N, 6] x) => (float[N, 5] y) <float shift = {SHIFT}> {
        h = MatMul (x, w) t = Tanh (h) a = Add (t, shift) p = Sigmoid (a) y = Identity (p)
    }""".replace("SHIFT", str(shift))
    path = saved(text, tmp_path / "m.onnx")
    made = odtc.compile(path, batch=BATCH, loss="mse").trainer(threads=1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        made.export_onnx(tmp_path / "trained.onnx")
    assert is_small == any("too small to be compared" in str(each.message) for each in caught)


def test_samples_lie_along_any_dimension() -> None:
    whole = np.arange(24).reshape(2, 4, 3)
    assert np.array_equal(samples_of(whole, (2, 1, 3), 4, 1, None), whole[:, :1])
    rows = np.arange(24).reshape(8, 3)
    assert np.array_equal(samples_of(rows, (2, 3), 4, 1, None), rows[:2])
    assert np.array_equal(samples_of(rows, (2, 3), 4, 1, Place(0, 2)), rows[::4])
    assert samples_of(whole, (1, 4, 3), 4, 1, None).shape == whole.shape


def test_a_difference_is_relative_and_knows_what_is_not_finite() -> None:
    expected = np.array([1.0, -100.0, np.inf])
    assert difference(np.array([2.0, -100.0, np.inf]), expected) == 0.01
    assert difference(np.array([1.0, -100.0, 5.0]), expected) == np.inf
    assert difference(np.array([np.nan]), np.array([np.nan])) == 0.0
