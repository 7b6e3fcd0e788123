"""Files of `odtc.from_torch`: names, values, ties and modes, and modules that it refuses."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper
from torch import Tensor, nn

import odtc
from odtc.core.errors import MissingPackageError, UnsupportedError, UsageError
from odtc.core.onnx_model.weight_list import WeightList, read_weight_list
from odtc.torch_export import exporters
from odtc.torch_export.stand_ins import stand_ins
from tests.families import FAMILIES, make

# What SELU gives of numbers far below zero.
SATURATED = -1.7580993408473766


def written(
    module: nn.Module, example: Any, folder: Path, **options: Any
) -> tuple[onnx.ModelProto, WeightList]:
    """The file of a module, and its list of weights."""
    path = folder / "model.onnx"
    exported = odtc.from_torch(module, example, path, **options)
    assert not [note for note in exported.notes if "gradient is stopped" in note]
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    weights = read_weight_list(model)
    assert weights is not None
    return model, weights


def values_of(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}


def operators(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[k], other[k]) for k in one)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_is_in_its_file_as_it_is(name: str, tmp_path: Path) -> None:
    """Names, values, ties, and what is trained; and the module is as it was."""
    module = make(name, without_dropout=False)
    next(module.children()).eval()
    before = {key: tensor.clone() for key, tensor in module.state_dict().items()}
    modes = [part.training for part in module.modules()]
    drawn = torch.random.get_rng_state()
    example = FAMILIES[name].inputs(2)
    torch.random.set_rng_state(drawn)
    model, weights = written(module, example, tmp_path)

    assert torch.equal(torch.random.get_rng_state(), drawn)
    assert [part.training for part in module.modules()] == modes
    assert same(module.state_dict(), before)
    assert all("forward" not in vars(part) for part in module.modules())

    found = values_of(model)
    assert {*weights.initializers, *weights.ties} == before.keys()
    for key, tensor in before.items():
        np.testing.assert_array_equal(found[weights.ties.get(key, key)], tensor.numpy(), key)
    assert list(weights.parameters) == [key for key, _ in module.named_parameters()]
    for value in (*model.graph.input, *model.graph.output):
        dims = value.type.tensor_type.shape.dim
        assert (dims[0].dim_param, dims[0].denotation) == ("batch", "DATA_BATCH")
        assert all(dim.dim_value for dim in list(dims)[1:])


def test_dropout_batch_normalisation_and_stochastic_depth_stay(tmp_path: Path) -> None:
    module = make("efficientnet", without_dropout=False)
    model, _ = written(module, torch.randn(2, 3, 32, 32), tmp_path)
    drops = sum(type(part).__name__ in ("Dropout", "StochasticDepth") for part in module.modules())
    # The first block has the ratio 0.
    assert operators(model).count("Dropout") == drops - 2
    norms = [node for node in model.graph.node if node.op_type == "BatchNormalization"]
    assert norms
    assert all(len(node.output) == 3 for node in norms)
    assert not {"RandomUniformLike", "Bernoulli"}.intersection(operators(model))


def test_equal_tensors_stay_two_and_a_shared_one_is_one(tmp_path: Path) -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(4), nn.LayerNorm(4)
            self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
            self.second.weight = self.first.weight

        def forward(self, x: Tensor) -> Tensor:
            return self.second(self.norm2(self.first(self.norm1(x))))

    model, weights = written(Tied(), torch.randn(2, 4), tmp_path)
    assert weights.ties == {"second.weight": "first.weight"}
    assert values_of(model).keys() == {*weights.parameters}
    assert {"norm1.weight", "norm2.weight", "norm1.bias", "norm2.bias"} < {*weights.parameters}


class Kinds(nn.Module):
    """One weight of each kind, and some that the forward does not read."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(2.0))
        self.fixed = nn.Parameter(torch.ones(4), requires_grad=False)
        self.unread = nn.Parameter(torch.arange(3.0))
        self.register_buffer("mean", torch.full((4,), 0.5))
        self.register_buffer("order", torch.tensor([3, 2, 1, 0]))
        self.register_buffer("table", torch.ones(4), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return (x - self.mean)[:, self.order] * self.scale * self.fixed + self.table


def test_each_kind_is_told_apart(tmp_path: Path) -> None:
    model, weights = written(Kinds(), torch.randn(2, 4), tmp_path)
    assert weights.parameters == ("scale", "unread")
    assert weights.buffers == ("fixed", "mean", "order")
    assert weights.frozen == ("fixed",)
    found = values_of(model)
    np.testing.assert_array_equal(found["unread"], [0, 1, 2])
    assert found["scale"].shape == ()
    assert found["order"].dtype == np.int64


def test_a_part_in_eval_stays_as_it_is(tmp_path: Path) -> None:
    """Its batch normalisation is two constants for the optimizer, its dropout is nothing."""
    module = make("mlp", without_dropout=False)
    module[1].running_mean.uniform_(-1, 1)
    module[1].eval(), module[3].eval()
    model, weights = written(module, torch.randn(2, 8), tmp_path)
    assert "BatchNormalization" not in operators(model)
    assert operators(model).count("Dropout") == 1
    assert {"1.weight", "1.bias"} < {*weights.parameters}
    assert {"1.running_mean", "1.running_var"} < {*weights.buffers}


def test_a_module_in_eval_is_exported_as_it_trains(tmp_path: Path) -> None:
    module = make("mlp", without_dropout=False).eval()
    exported = odtc.from_torch(module, torch.randn(1, 8), tmp_path / "model.onnx")
    assert exported.notes == (
        "the module was in eval(): it is exported as it is in train()",
        "the running variances of batch normalisations (1) follow ONNX, which divides the variance "
        "of a batch by its n values; PyTorch divides by n - 1",
    )
    assert {"BatchNormalization", "Dropout"} < {*operators(onnx.load(exported.path))}
    assert not any(part.training for part in module.modules())


def test_running_variances_are_told_of_where_training_moves_them(tmp_path: Path) -> None:
    """The note is true of what it names, and absent where no statistic moves."""
    x = torch.randn(4, 3, 2, 2)
    norms = {"moves": {}, "has none": {"track_running_stats": False}, "is still": {}}
    for name, options in norms.items():
        part = nn.BatchNorm2d(3, **options).train(name != "is still")
        module = nn.Sequential(nn.Conv2d(3, 3, 1), part, nn.Flatten())
        exported = odtc.from_torch(module, x, tmp_path / "model.onnx")
        assert any("running variances" in note for note in exported.notes) == (name == "moves")
        if name == "moves":
            trainer = odtc.compile(exported, batch=4).trainer(threads=1)
            trainer.step(x.numpy(), np.zeros(4, np.int64), lr=0.0)
            module(x)
            first = trainer.state_dict()["1.running_var"] - 0.9
            assert part.running_var is not None
            np.testing.assert_allclose(first * 16 / 15, part.running_var - 0.9, rtol=1e-4)


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


class Words(nn.Module):
    """An embedding with a padding row, and a backbone that gets no gradient."""

    def __init__(self, *, tied: bool) -> None:
        super().__init__()
        self.words, self.body = nn.Embedding(6, 4, padding_idx=2), nn.Linear(4, 4)
        self.head = nn.Linear(4, 6)
        if tied:
            self.head.weight = self.words.weight

    def forward(self, ids: Tensor) -> Tensor:
        x = self.words(ids).mean(1)
        with torch.no_grad():
            fixed = self.body(torch.ones(4))
        return self.head(x + fixed)


@pytest.mark.parametrize("tied", [False, True])
def test_gradients_that_onnx_does_not_know(tied: bool, tmp_path: Path) -> None:
    """A padding row of zeros is looked up as zero times a word; a tied one is noted."""
    ids = torch.tensor([[1, 2, 3], [2, 2, 5]])
    with pytest.warns(UserWarning, match="stops their gradient, and they are frozen: body"):
        exported = odtc.from_torch(Words(tied=tied), ids, tmp_path / "model.onnx")
    assert exported.weights.frozen == ("body.bias", "body.weight")
    assert any("padding rows that are tied" in note for note in exported.notes) == tied
    assert ("Not" in operators(onnx.load(exported.path))) != tied


class Detaches(nn.Module):
    """One path of two has a gradient, which a line stops."""

    def __init__(self, stop: Any) -> None:
        super().__init__()
        self.fc, self.stop = nn.Linear(3, 3), stop

    def forward(self, x: Tensor) -> Tensor:
        y = self.fc(x)
        return y + self.stop(y)


def under_no_grad(x: Tensor) -> Tensor:
    with torch.no_grad():
        return x * 2


@pytest.mark.parametrize("stop", [Tensor.detach, under_no_grad])
def test_a_gradient_that_is_stopped_is_told_of(stop: Any, tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match=r"gradient is stopped .*test_from_torch\.py, line"):
        odtc.from_torch(Detaches(stop), X, tmp_path / "model.onnx")
    exported = odtc.from_torch(Detaches(torch.tanh), X, tmp_path / "model.onnx")
    assert not exported.notes


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


@pytest.mark.parametrize(
    ("make_module", "shape"),
    [
        (lambda: nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True), (2, 4, 8)),
        (lambda: nn.Sequential(nn.Conv2d(3, 4, 1), nn.Dropout2d(0.2)), (2, 3, 4, 4)),
        (lambda: nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.2, inplace=True)), (2, 3)),
        (lambda: nn.Sequential(nn.Linear(3, 3), nn.SELU(), nn.AlphaDropout(0.2)), (2, 3)),
        (lambda: nn.Sequential(nn.Conv2d(3, 4, 1), nn.FeatureAlphaDropout(0.2)), (2, 3, 4, 4)),
    ],
    ids=["attention", "channels", "in place", "alpha", "alpha of channels"],
)
def test_every_kind_of_dropout_stays(make_module: Any, shape: Any, tmp_path: Path) -> None:
    module = make_module()
    drops = [part for part in module.modules() if "Dropout" in type(part).__name__]
    drops += [part for part in module.modules() if isinstance(part, nn.MultiheadAttention)]
    model, _ = written(module, torch.randn(shape), tmp_path)
    assert operators(model).count("Dropout") == len(drops)


@pytest.mark.parametrize("kind", [nn.AlphaDropout, nn.FeatureAlphaDropout])
@pytest.mark.parametrize("ratio", [0.0, 0.2, 0.7])
def test_dropout_for_selu_gives_what_pytorch_does(kind: Any, ratio: float) -> None:
    """The same numbers where it keeps and where it drops, and of channels whole ones."""
    torch.manual_seed(0)
    x, part = torch.randn(64, 32, 3), kind(ratio)
    with stand_ins(part):
        found = part(x)
    wanted = part(x)
    slope = ((1 - ratio) * (1 + ratio * SATURATED**2)) ** -0.5
    low = slope * SATURATED * (1 - ratio)
    for result in (found, wanted):
        drops = torch.isclose(result, torch.tensor(low)) if ratio else result != x
        assert abs(drops.float().mean().item() - ratio) < 0.05
        torch.testing.assert_close(result[~drops], (slope * (x - SATURATED * ratio))[~drops])
        if kind is nn.FeatureAlphaDropout:
            assert (drops.all(2) == drops.any(2)).all()


def test_a_dropout_that_an_exporter_loses_is_missed(tmp_path: Path, monkeypatch) -> None:
    def without_dropout(request: exporters.Request) -> onnx.ModelProto:
        for part in request.module.modules():
            if isinstance(part, nn.Dropout):
                part.eval()
        return exporters.by_torchscript(request)

    monkeypatch.setattr("odtc.torch_export.export.EXPORTERS", {"careless": without_dropout})
    with pytest.raises(UnsupportedError, match=r"draws random numbers 2 times .* has 0 nodes"):
        odtc.from_torch(make("mlp", without_dropout=False), torch.randn(2, 8), tmp_path / "m.onnx")


def test_an_exporter_that_merges_or_moves_weights_is_seen(tmp_path: Path, monkeypatch) -> None:
    def merging(request: exporters.Request) -> onnx.ModelProto:
        tensors = request.tensors
        return torch.onnx.export(  # pyright: ignore[reportOptionalMemberAccess, reportReturnType]
            *(request.module, tuple(tensors.values())), input_names=list(tensors), dynamo=True
        ).model_proto

    def moving(request: exporters.Request) -> onnx.ModelProto:
        model = exporters.by_torchscript(request)
        last = model.graph.initializer[-1]
        last.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(last) + 1, last.name))
        return model

    known = {"merging": merging, "moving": moving}
    monkeypatch.setattr("odtc.torch_export.export.EXPORTERS", known)
    module = nn.Sequential(nn.LayerNorm(4), nn.LayerNorm(4), nn.Linear(4, 4))
    with pytest.raises(UnsupportedError) as caught:
        odtc.from_torch(module, torch.randn(2, 4), tmp_path / "m.onnx", batch_axis=None)
    text = str(caught.value)
    assert "merging: the file lacks weights that the module reads: 1.bias, 1.weight" in text
    assert "moving: the file has other values than the module: 2.bias" in text


def test_torch_is_missing(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("odtc.from_pytorch.find_spec", lambda name: None)
    said = r"(?s)PyTorch is not installed.*pip install torch"
    with pytest.raises(MissingPackageError, match=said):
        odtc.from_torch(nn.Linear(3, 2), torch.randn(2, 3), tmp_path / "model.onnx")


class Fixes(nn.Module):
    """Takes the number of samples of the example for a constant."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(x) + np.ones((int(x.shape[0]), 1), np.float32).sum()


class Draws(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rand_like(x)


class Counts(nn.Module):
    def __init__(self, in_place: bool = True) -> None:
        super().__init__()
        self.in_place = in_place
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        if self.in_place:
            self.seen += 1
        else:
            self.seen = self.seen + 1
        return x * self.seen


class Decides(nn.Module):
    """Goes by a value that is the same for each number of samples."""

    def forward(self, x: Tensor) -> Tensor:
        return x + 1 if x.max() > -1e9 else x


class ByMode(nn.Module):
    """Reads one weight while it trains, and another one in inference mode."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(3, 2), nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.b(x) if self.training else self.a(x)


class Branches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cond(x.mean() > 0, lambda x: self.a(x) * 2, lambda x: -self.a(x), (x,))


def shared_memory() -> nn.Module:
    module = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    module[1].weight = nn.Parameter(module[0].weight.data)
    return module


X = torch.randn(2, 3)
REFUSED = {
    "renormalised words": (
        lambda: nn.Embedding(4, 2, max_norm=1.0),
        *(torch.tensor([1, 2]), {}, UnsupportedError, "max_norm"),
    ),
    "the batch is fixed": (Fixes, X, {}, UnsupportedError, "TorchScript: .*\n.*torch.export: "),
    "random numbers": (Draws, X, {}, UnsupportedError, "draws random numbers in inference, too"),
    "a decision": (Decides, X, {}, UnsupportedError, "goes by the values of a tensor, in .*line"),
    "a branch": (
        Branches,
        *(X, {}, UnsupportedError),
        r"(?s)calls 'cond', .*torch\.cond.*test_from_torch\.py, line .*torch\.where",
    ),
    "other weights in eval": (
        ByMode,
        *(X, {}, UnsupportedError),
        r"(?s)lacks weights that the module reads: a\.bias, a\.weight.*same weights in train\(\)",
    ),
    "a scripted module": (
        lambda: torch.jit.script(nn.Linear(3, 2)),
        *(X, {}, UsageError, "is scripted"),
    ),
    "a lazy module": (lambda: nn.LazyLinear(2), X, {}, UsageError, "weights without values"),
    "a buffer that counts": (Counts, X, {}, UnsupportedError, "changes buffers .*: seen"),
    "shared memory": (shared_memory, X, {}, UnsupportedError, "'0.weight' and '1.weight' share"),
    "cumulative averages": (
        lambda: nn.BatchNorm1d(3, momentum=None),
        *(X, {}, UnsupportedError, r"momentum=None"),
    ),
    "no module": (lambda: torch.relu, X, {}, UsageError, "no torch.nn.Module"),
    "a wrong shape": (lambda: nn.Linear(4, 2), X, {}, UsageError, "fails on the example inputs"),
    "too many inputs": (lambda: nn.Linear(3, 2), (X, X), {}, UsageError, "do not fit"),
    "no tensor": (lambda: nn.Linear(3, 2), (3,), {}, UsageError, "no tensor in the example"),
    "an unknown input": (
        lambda: nn.Linear(3, 2),
        *(X, {"batch_axis": {"y": 1}}, UsageError, "no input 'y'"),
    ),
    "too few names": (
        lambda: nn.Linear(3, 2),
        *(X, {"output_names": []}, UsageError, "0 names given for 1 tensor"),
    ),
    "too many names": (
        lambda: nn.Linear(3, 2),
        *(X, {"output_names": ["a", "a"]}, UsageError, "2 names given for 1 tensor"),
    ),
    "a name that is there twice": (
        lambda: nn.Bilinear(3, 3, 2),
        *((X, X), {"input_names": ["a", "a"]}, UsageError, "the name 'a' is there twice"),
    ),
    "an empty name": (
        lambda: nn.Linear(3, 2),
        *(X, {"input_names": [""]}, UsageError, "'' is no name"),
    ),
    "a name that is no text": (
        lambda: nn.Linear(3, 2),
        *(X, {"input_names": [3]}, UsageError, "3 is no name"),
    ),
    "an axis that is a truth": (
        lambda: nn.Linear(3, 2),
        *(X, {"batch_axis": True}, UsageError, "True is not the number of a dimension"),
    ),
    "an axis that is a text": (
        lambda: nn.Linear(3, 2),
        *(X, {"batch_axis": {"input": "1"}}, UsageError, "'1' is not the number of a dimension"),
    ),
    "an axis beyond": (
        lambda: nn.Linear(3, 2),
        *(X, {"batch_axis": -3}, UsageError, "2 dimensions, and none is number -3"),
    ),
    "another axis": (
        lambda: nn.Linear(3, 2),
        *(X, {"batch_axis": -1}, UsageError),
        r"samples to 4: input as \[2, 4\], from \[2, 3\], since its samples are along dimension 1",
    ),
    "a name of two things": (
        lambda: nn.Linear(3, 2),
        *(X, {"input_names": ["weight"]}, UsageError, "'weight' is the name of"),
    ),
    "two numbers of samples": (
        lambda: nn.Bilinear(3, 3, 2),
        *((X, X[:1]), {}, UsageError, "input1 has 2 along dimension 0, input2 has 1"),
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case: str, tmp_path: Path) -> None:
    make_module, example, options, kind, text = REFUSED[case]
    path = tmp_path / "model.onnx"
    with pytest.raises(kind, match=text):
        odtc.from_torch(make_module(), example, path, **options)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("in_place", [True, False])
def test_a_module_that_is_refused_is_as_it_was(in_place: bool, tmp_path: Path) -> None:
    module = Counts(in_place)
    held = module.seen
    with pytest.raises(UnsupportedError):
        odtc.from_torch(module, X, tmp_path / "model.onnx")
    assert module.seen is held
    assert module.seen == 0


def test_branches_work_as_before_once_they_are_refused(tmp_path: Path) -> None:
    module = Branches()
    expected = module(X)
    with pytest.raises(UnsupportedError):
        odtc.from_torch(module, X, tmp_path / "model.onnx")
    for each in (module, Branches()):
        each(X).sum().backward()
    assert torch.equal(module(X), expected)
