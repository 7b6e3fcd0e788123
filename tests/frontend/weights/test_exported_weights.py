"""Parameters of modules that PyTorch exported: the same set, with the same names and values."""

import copy
import io
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest
import torch
from onnx import helper, numpy_helper
from torch import nn

import odtc
from odtc.backends.targets import parse_target
from odtc.core.errors import ModelError
from odtc.core.onnx_model.weight_list import WeightList, write_weight_list
from odtc.driver.examination import examine
from odtc.driver.options.step_options import StepOptions
from odtc.frontend.file.onnx_file import load_model
from odtc.frontend.file.specialize import read_graph, specialize
from odtc.frontend.graph import Graph, statistics_of

DYNAMO = {"dynamo": True, "verbose": False, "external_data": False}
WAYS = {
    "default": DYNAMO,
    "not optimised": {**DYNAMO, "optimize": False},
    "scripted for training": {
        "dynamo": False,
        "training": torch.onnx.TrainingMode.TRAINING,
        "do_constant_folding": False,
    },
    "scripted": {"dynamo": False},
}
KEEPS_NORMS = ("not optimised", "scripted for training")


class Layers(nn.Module):
    """Fresh layers of one size, whose scales and biases are equal; buffers; single numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.rand(8))
        self.dense, self.other = nn.Linear(8, 8), nn.Linear(8, 8)
        self.norms = nn.ModuleList([nn.LayerNorm(8), nn.LayerNorm(8)])
        self.plain = nn.LayerNorm(8, elementwise_affine=False)
        self.scales = nn.ParameterList([torch.full((8,), 1e-3), torch.full((8,), 1e-3)])
        self.logit_scale = nn.Parameter(torch.tensor(2.66))
        self.tail = nn.Parameter(torch.randn(8))
        self.copy = nn.Linear(8, 8)
        self.copy.load_state_dict(self.dense.state_dict())
        nn.init.zeros_(self.other.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norms[0](self.dense(x - self.mean)) * self.scales[0]
        x = self.norms[1](torch.tanh(self.other(x))) * self.scales[1].reshape(1, -1)
        # The exporter drops what leaves the tail as it is, and with it how the product reads it.
        return self.copy(self.plain(x) * self.tail.contiguous()) * self.logit_scale.exp()


class Language(nn.Module):
    """An embedding that is the output layer, too, layers that are copies, and a token."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(11, 8)
        self.token = nn.Parameter(torch.randn(1, 1, 8))
        layer = nn.TransformerEncoderLayer(8, 2, 12, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(8, 11, bias=False)
        self.head.weight = self.words.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.words(x)
        h = torch.cat([self.token.expand(h.shape[0], -1, -1), h], 1)
        return self.head(self.layers(h))


class Images(nn.Module):
    """Convolutions with normalisations after and in front, and one without."""

    def __init__(self) -> None:
        super().__init__()
        self.front = nn.BatchNorm2d(3)
        self.first, self.norm = nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4)
        self.second, self.after = nn.Conv2d(4, 4, 3), nn.BatchNorm2d(4)
        self.last = nn.Conv2d(4, 5, 1)
        nn.init.zeros_(self.last.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.norm(self.first(self.front(x))))
        return self.last(torch.relu(self.after(self.second(x)))).mean((2, 3))


MODULES = {
    "layers": (Layers, lambda: torch.randn(3, 8)),
    "language": (Language, lambda: torch.randint(0, 11, (3, 5))),
    "images": (Images, lambda: torch.randn(2, 3, 8, 8)),
}
# Names of one parameter.
TIES = {"head.weight": "words.weight"}


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory):
    """The file of a module, by its name and the way that it was exported in, and the module."""
    folder, made = tmp_path_factory.mktemp("exported"), {}

    def export(kind: str, way: str) -> tuple[Path, nn.Module]:
        if (kind, way) not in made:
            torch.manual_seed(0)
            make, inputs = MODULES[kind]
            module, path = make().train(), folder / f"{kind} {way}.onnx"
            torch.onnx.export(module, (inputs(),), path, **WAYS[way])
            made[kind, way] = path, module
        return made[kind, way]

    return export


def read(path: Path) -> tuple[Graph, set[str]]:
    """The graph of a file, and its parameters by the names that the module lists first."""
    graph = specialize(load_model(path))
    return graph, {TIES.get(n, n) for n in graph.parameters.keys() - statistics_of(graph)}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", MODULES)
def test_the_set_is_that_of_the_module_or_what_was_lost_is_named(kind, way, exported) -> None:
    path, module = exported(kind, way)
    graph, trained = read(path)
    expected = dict(module.named_parameters())
    noted = "\n".join(graph.notes)
    lost = expected.keys() - trained
    if way == "scripted":
        # Files of this exporter do not say what a computed tensor was.
        extra = trained - expected.keys()
        assert bool(extra) == bool(lost)
        assert all(f" {name} (" in noted or "convolutions" in noted for name in extra)
    elif kind == "images" and way not in KEEPS_NORMS:
        assert lost == {f"{n}.{end}" for n in ("norm", "after") for end in ("weight", "bias")}
        assert "trained without them (2: norm, after)" in noted
    else:
        assert trained == expected.keys()
        assert "the file has no tensor" not in noted


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", ["layers", "language"])
def test_values_and_results_are_those_of_the_module(kind, way, exported) -> None:
    path, module = exported(kind, way)
    model, state = load_model(path), module.state_dict()
    for tensor in model.graph.initializer:
        if tensor.name in state:
            value = numpy_helper.to_array(tensor)
            expected, allowed = state[tensor.name].numpy(), 2e-7 * ("logit" in tensor.name)
            np.testing.assert_allclose(value, expected, rtol=allowed, err_msg=tensor.name)
    onnx.checker.check_model(model)
    x = MODULES[kind][1]()
    run = onnxruntime.InferenceSession(model.SerializeToString())
    (found,) = run.run(None, {run.get_inputs()[0].name: x.numpy()})
    np.testing.assert_allclose(found, module(x).detach().numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("kind", "way"), [("layers", "default"), ("language", "default")])
def test_five_steps_are_those_of_the_module(kind, way, exported) -> None:
    path, module = exported(kind, way)
    reference = copy.deepcopy(module)
    torch.manual_seed(1)
    x = MODULES[kind][1]()
    y = torch.randn(reference(x).shape)
    optimizer = torch.optim.SGD(reference.parameters(), lr=0.1)
    trainer = odtc.compile(path, loss="mse").trainer()
    for _ in range(5):
        loss = nn.functional.mse_loss(reference(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found = trainer.step(x.numpy(), y.numpy(), lr=0.1)
        assert found == pytest.approx(loss.item(), rel=1e-4)
    state = reference.state_dict()
    for name, value in trainer.parameters().items():
        np.testing.assert_allclose(value, state[name].numpy(), rtol=1e-3, atol=1e-5, err_msg=name)
    trainer.export_onnx(path.with_suffix(".trained.onnx"))
    trained = {
        tensor.name: numpy_helper.to_array(tensor)
        for tensor in onnx.load(path.with_suffix(".trained.onnx")).graph.initializer
    }
    for name, value in trainer.parameters().items():
        np.testing.assert_array_equal(trained[name], value, err_msg=name)


def test_equal_parameters_are_apart_and_shared_ones_are_not(exported) -> None:
    for way in WAYS:
        graph, _ = read(exported("language", way)[0])
        readers = [n for n in graph.nodes if {"words.weight", "head.weight"} & set(n.input)]
        assert sorted(n.op_type for n in readers) == ["Gather", "Transpose"], way
    noted = "\n".join(read(exported("language", "default")[0])[0].notes)
    assert "head.weight is words.weight, too: one parameter of both modules" in noted
    assert "apart again: layers.layers.0.norm2.weight (from layers.layers.0.norm1" in noted
    noted = "\n".join(read(exported("language", "scripted")[0])[0].notes)
    assert "trained as one parameter; if they are several, export with" in noted


def test_biases_of_zeros_come_back(exported) -> None:
    path, _ = exported("layers", "default")
    names = [t.name for t in onnx.load(path).graph.initializer]
    assert "other.bias" not in names
    assert not read(path)[0].parameters["other.bias"].any()


def test_a_constant_that_was_merged_with_a_parameter_stays_one(exported) -> None:
    """A normalisation without parameters, in a file where fresh ones share their scale."""
    graph, _ = read(exported("layers", "default")[0])
    plain = [n for n in graph.nodes if n.op_type == "LayerNormalization"][-1]
    assert not graph.parameters.keys() & set(plain.input)


def test_a_result_with_the_name_of_a_buffer_is_told_apart(tmp_path: Path) -> None:
    class Clash(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("mean", torch.rand(4))
            self.dense = nn.Linear(4, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.dense((x - self.mean).mean(1) + self.mean)

    torch.manual_seed(0)
    module, x = Clash(), torch.randn(2, 5, 4)
    torch.onnx.export(module, (x,), tmp_path / "m.onnx", **WAYS["not optimised"])
    model = load_model(tmp_path / "m.onnx")
    run = onnxruntime.InferenceSession(model.SerializeToString())
    (found,) = run.run(None, {"x": x.numpy()})
    np.testing.assert_allclose(found, module(x).detach().numpy(), rtol=1e-5, atol=1e-6)
    assert read(tmp_path / "m.onnx")[1] == {"dense.weight", "dense.bias"}


@pytest.mark.parametrize("seed", range(4))
def test_a_file_that_lies_computes_the_same(seed: int, exported, tmp_path: Path) -> None:
    """Calls that are said to have read other parameters than they did."""
    path, _ = exported("layers", "default")
    model, rng = onnx.load(path), np.random.default_rng(seed)
    said = next(pair.value for pair in model.graph.metadata_props if "signature" in pair.key)
    names = re.findall(r"^(p_\w+):", said, re.MULTILINE)
    for node in model.graph.node:
        for pair in node.metadata_props:
            pair.value = re.sub(r"%p_\w+", lambda _: f"%{rng.choice(names)}", pair.value)
    onnx.save(model, tmp_path / "m.onnx")
    x = {"x": MODULES["layers"][1]().numpy()}
    before, after = (
        onnxruntime.InferenceSession(each.SerializeToString()).run(None, x)[0]
        for each in (onnx.load(path), load_model(tmp_path / "m.onnx"))
    )
    np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-6)


def test_metadata_is_text_and_never_run(tmp_path: Path) -> None:
    """Whatever is written where the exporter writes, the file is read as it stands."""
    torch.manual_seed(0)
    torch.onnx.export(Layers(), (torch.randn(3, 8),), tmp_path / "m.onnx", **DYNAMO)
    model = onnx.load(tmp_path / "m.onnx")
    for node in model.graph.node:
        for pair in node.metadata_props:
            pair.value = "__import__('os').abort() % ]( %p_nobody" * 3
    for pair in model.graph.metadata_props:
        pair.value = pair.value.replace("norms.1", "'\\n")
    stream = io.BytesIO(model.SerializeToString())
    (tmp_path / "n.onnx").write_bytes(stream.getvalue())
    graph, _ = read(tmp_path / "n.onnx")
    assert "dense.weight" in graph.parameters


def test_a_list_of_other_tensors_is_refused() -> None:
    """A parameter that is silently no longer trained would be lost."""
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, (2, 3))],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, (2, 3))],
        [numpy_helper.from_array(np.ones((3, 3), np.float32), "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    write_weight_list(model, WeightList(("w", "v")))
    with pytest.raises(
        ModelError, match="names 1 tensors that the file does not have, such as 'v'"
    ):
        read_graph(model)


@pytest.mark.parametrize("name", ["w", "w_quantized", "w_Q4", "w_DQ_Q4"])
def test_a_listed_weight_may_be_quantised_since(name: str) -> None:
    """By another tool, which knows nothing of the list; it is frozen then."""
    model = onnx.parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : 21]>
        g (float[2, 3] x) => (float[2, 3] y) <int8[3, 3] {name} = {{1, 2, 3, 4, 5, 6, 7, 8, 9}},
        float s = {{0.5}}, float[3] b = {{1, 2, 3}}>
        {{ d = DequantizeLinear ({name}, s) z = MatMul (x, d) y = Add (z, b) }}"""
    )
    write_weight_list(model, WeightList(("w", "b")))
    assert read_graph(model).parameters.keys() == {"b"}


@pytest.mark.parametrize("optimize", [True, False])
def test_a_padding_row_is_named_where_the_file_shows_it(optimize: bool, tmp_path: Path) -> None:
    """PyTorch gives it no gradient; in the graph it is a row like any other."""

    class Tables(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.plain, self.padded = nn.Embedding(5, 4), nn.Embedding(5, 4, padding_idx=2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.plain(x) + self.padded(x)

    path, ids = tmp_path / "m.onnx", torch.tensor([[0, 1, 2]])
    torch.onnx.export(Tables(), (ids,), path, **{**DYNAMO, "optimize": optimize})
    notes = specialize(load_model(path)).notes
    (note,) = [note for note in notes if "padding" in note]
    assert note.startswith("padded.weight: the module treats its padding row 2")
    assert "--freeze padded.weight" in note
    odtc.from_torch(Tables(), ids, path)
    assert not any("padding" in note for note in specialize(load_model(path), 1).notes)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, {"padding row", "computed tensors"}),
        ({"freeze": "padded.weight"}, {"computed tensors"}),
        ({"train": "head.*"}, set()),
        ({"lora": "rank=2,targets=head.*"}, set()),
        ({"lora": "rank=2,targets=padded.*"}, {"padding row"}),
    ],
)
def test_what_an_exporter_lost_of_weights_is_told_where_they_are_trained(
    options: Mapping[str, Any], told: set[str], tmp_path: Path
) -> None:
    class Padded(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.padded, self.head = nn.Embedding(5, 4, padding_idx=2), nn.Linear(4, 3)
            self.scale = nn.Parameter(torch.rand(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.padded(x) * (1 + self.scale))

    path, ids = tmp_path / "m.onnx", torch.tensor([[0, 1, 2]])
    torch.onnx.export(Padded(), (ids,), path, dynamo=True, verbose=False, external_data=False)
    report = examine(str(path), parse_target("host-cpu"), StepOptions(loss="mse", **options))
    said = {part for part in ("padding row", "computed tensors") if part in str(report.notes)}
    assert said == told


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("tracks", [True, False])
def test_running_statistics_of_each_sample_are_named(affine, tracks, tmp_path: Path) -> None:
    """In eval() the module would take them; the file has none."""
    norm = nn.InstanceNorm1d(4, affine=affine, track_running_stats=tracks)
    module = nn.Sequential(nn.Conv1d(3, 4, 3), norm, nn.Flatten(), nn.Linear(24, 3)).train()
    path, x = tmp_path / "m.onnx", torch.randn(4, 3, 8)
    torch.onnx.export(module, (x,), path, dynamo=True, verbose=False, external_data=False)
    notes = [n for n in specialize(load_model(path)).notes if "running" in n]
    assert len(notes) == tracks
    assert all(note.startswith("the file has no running statistics of 1 (") for note in notes)


def test_what_kerass_exporter_merges_and_freezes_is_said(tmp_path: Path) -> None:
    """As `model.export(path, format="onnx")` of Keras over PyTorch writes a fresh model."""
    model = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["" : 18], producer_name: "pytorch">
        agraph (float[N, 1, 4, 4] x) => (float[N, 3] z)
        <float[3, 1, 1, 1] "onnx::Conv_1" = {1, 2, 3}, float[1, 3, 1, 1] "onnx::Add_2" = {0, 0, 0},
         float[1, 3, 1, 1] "onnx::Mul_3" = {0.9, 1.1, 1}, int64[2] "onnx::Axes_6" = {2, 3}> {
         "onnx::Sub_4" = Identity ("onnx::Add_2")
         "onnx::Add_5" = Identity ("onnx::Add_2")
         a = Conv (x, "onnx::Conv_1")
         b = Add (a, "onnx::Add_2")
         r = Relu (b)
         c = Sub (r, "onnx::Sub_4")
         d = Mul (c, "onnx::Mul_3")
         y = Add (d, "onnx::Add_5")
         z = ReduceMean <keepdims = 0> (y, "onnx::Axes_6") }"""
    )
    path = tmp_path / "m.onnx"
    onnx.save(model, path)
    merged, norm = specialize(load_model(path), 4).notes
    assert merged.startswith("Add, Sub, Add read onnx::Add_2: trained as one parameter;")
    assert "normalisations of a model in inference (1: c)" in norm
    # Steps of a recurrence read one bias, and no copies of it.
    for node in model.graph.node:
        node.input[:] = [re.sub("onnx::(Sub_4|Add_5)", "onnx::Add_2", n) for n in node.input]
    del model.graph.node[:2]
    onnx.save(model, path)
    assert not any("one parameter" in note for note in specialize(load_model(path), 4).notes)
