"""Options of adapters: rank-stabilised scales, dropout, `all-linear`, and a head that is new."""

import copy
import itertools
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from peft import LoraConfig, get_peft_model
from torch import nn

import odtc
from odtc.core.errors import ModelError
from odtc.core.onnx_model.new_head import KEY, read_new_head
from odtc.core.specs import Role
from odtc.frontend.file.onnx_file import load_model
from odtc.frontend.file.specialize import specialize
from odtc.frontend.trained.lora import LoRA, adapt
from odtc.frontend.trained.selection import Selection
from tests.fast import fast_if
from tests.runtime_rpc.adapters.language_models import LANGUAGES, language, tokens

BATCH = 4


class Net(nn.Module):
    """A convolution, two layers and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(3, 4, 3, padding=1)
        self.inner, self.outer = nn.Linear(8, 8), nn.Linear(8, 6)
        self.head = nn.Linear(6, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.tanh(self.outer(torch.tanh(self.inner(self.conv(x)))).mean(1)))


@pytest.fixture
def net(tmp_path: Path) -> tuple[nn.Module, Path]:
    torch.manual_seed(0)
    module, path = Net(), tmp_path / "net.onnx"
    odtc.from_torch(module, torch.randn(BATCH, 3, 8), path)
    return module, path


def test_rank_stabilised_adapters_learn_as_in_peft(
    net: tuple[nn.Module, Path], tmp_path: Path
) -> None:
    module, path = net
    artifact = odtc.compile(path, batch=BATCH, lora="rank=3,alpha=4,targets=*er.weight,rslora=true")
    assert {each.scale for each in artifact.manifest.adapters} == {4 / 3**0.5}
    config = LoraConfig(
        r=3,
        lora_alpha=4,
        use_rslora=True,
        target_modules=["inner", "outer"],
        init_lora_weights=False,
    )
    theirs = get_peft_model(copy.deepcopy(module), config)
    theirs.save_pretrained(tmp_path / "theirs")
    trainer = artifact.trainer()
    trainer.load_adapters(tmp_path / "theirs")
    optimizer = torch.optim.SGD([p for p in theirs.parameters() if p.requires_grad], 0.1)
    for _ in range(5):
        x, y = torch.randn(BATCH, 3, 8), torch.randint(0, 5, (BATCH,))
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(theirs(x), y)
        loss.backward()
        optimizer.step()
        assert trainer.step(x.numpy(), y.numpy(), lr=0.1) == pytest.approx(loss.item(), rel=1e-6)


@pytest.mark.parametrize("opset", [11, None])
def test_dropout_takes_part_of_an_adapters_input_alone(opset: int | None, tmp_path: Path) -> None:
    """Each sample has one element; its squared output is 16/9 where it is kept, and 0 else."""
    module, samples = nn.Sequential(nn.Linear(4, 4, bias=False)), 64
    odtc.from_torch(module, torch.randn(2, 4), tmp_path / "m.onnx", output_names=["y"])
    if opset:
        model = onnx.load(tmp_path / "m.onnx")
        # Its operators are the same since.
        assert {node.op_type for node in model.graph.node} <= {"Transpose", "MatMul", "Gemm"}
        model.opset_import[0].version = opset
        onnx.save(model, tmp_path / "m.onnx")
    artifact = odtc.compile(
        tmp_path / "m.onnx",
        batch=samples,
        loss="mse",
        lora="rank=1,alpha=1,dropout=0.25",
    )
    (adapter,) = artifact.manifest.adapters
    assert adapter.dropout == 0.25
    trainer = artifact.trainer()
    x = np.zeros((samples, 4), np.float32)
    x[:, 0] = 1.0
    zeros = np.zeros((samples, 4), np.float32)
    ones = {
        adapter.weight: np.zeros((4, 4), np.float32),
        adapter.down: np.float32([[1], [0], [0], [0]]),
        adapter.up: np.float32([[1, 0, 0, 0]]),
    }
    trainer.set_parameters(ones)
    losses = [trainer.step(x, zeros, lr=0.0) for _ in range(20)]
    kept = np.asarray(losses) * samples * 4 * 9 / 16
    np.testing.assert_allclose(kept, np.round(kept), rtol=1e-5)
    assert len(set(losses)) > 5
    assert np.mean(kept) == pytest.approx(samples * 0.75, rel=0.1)
    assert np.array_equal(trainer.evaluate(x)[:, 0], np.ones(samples, np.float32))
    # The layer itself drops nothing.
    trainer.set_parameters({**ones, adapter.weight: np.eye(4, dtype=np.float32)})
    trainer.set_parameters({adapter.up: zeros[:1]})
    assert {trainer.step(x, zeros, lr=0.0) for _ in range(5)} == {0.25}
    with pytest.warns(UserWarning, match=r"trained with a dropout of 0\.1, the step has 0\.25"):
        _load_with_dropout(trainer, tmp_path / "folder")


def _load_with_dropout(trainer: odtc.Trainer, folder: Path) -> None:
    trainer.export_peft(folder)
    config = folder / "adapter_config.json"
    text = config.read_text()
    assert '"lora_dropout": 0.25' in text
    config.write_text(text.replace('"lora_dropout": 0.25', '"lora_dropout": 0.1'))
    trainer.load_adapters(folder)


def adapted(path: Path, lora: LoRA, trained: tuple[str, ...] = ()) -> tuple[set[str], list[str]]:
    """The modules that get adapters, and what is noted."""
    graph = specialize(load_model(path), BATCH)
    _, adapters = adapt(graph, lora, Selection(dict.fromkeys(trained)))
    modules = {each.weight.removesuffix(".weight") for each in adapters}
    return modules, [note for note in graph.notes if note.startswith("LoRA")]


@pytest.mark.parametrize("name", fast_if(lambda name: name == "llama", LANGUAGES))
@pytest.mark.filterwarnings("ignore:fan_in_fan_out")
def test_all_linear_is_what_peft_takes_for_it(name: str, tmp_path: Path) -> None:
    module = language(name)
    odtc.from_torch(module, {"input_ids": tokens(0)[0]}, tmp_path / "m.onnx")
    theirs = get_peft_model(module, LoraConfig(r=2, target_modules="all-linear"))
    expected = {n.split(".lora_A")[0] for n, _ in theirs.named_parameters() if ".lora_A" in n}
    found, notes = adapted(tmp_path / "m.onnx", LoRA(rank=2, targets="all-linear"))
    assert {f"base_model.model.{name}" for name in found} == expected
    assert any(
        "lm_head.weight" in note or "embed_tokens" in note or "wte" in note for note in notes
    )


def test_all_linear_takes_no_convolution_no_head_and_nothing_that_is_trained(
    net: tuple[nn.Module, Path],
) -> None:
    linear = LoRA(rank=2, targets="all-linear")
    found, notes = adapted(net[1], linear)
    assert found == {"inner", "outer"}
    assert notes == [
        "LoRA: all-linear leaves out 'head.weight': no other layer comes after it, so it is a head"
    ]
    assert adapted(net[1], linear, ("inner.weight",))[0] == {"outer"}
    assert adapted(net[1], LoRA(rank=2), ("head.weight",))[0] == {"conv", "inner", "outer"}


def test_a_new_head_trains_beside_the_adapters(net: tuple[nn.Module, Path], tmp_path: Path) -> None:
    new = tmp_path / "new.onnx"
    odtc.replace_head(net[1], 3, new)
    assert read_new_head(onnx.load(new)) == ("head.weight", "head.bias")
    trained = {}
    for params, freeze in itertools.product((None, ["conv.bias"]), ((), ["*.bias"])):
        given = [] if params and freeze else (params, freeze)
        if given:
            artifact = odtc.compile(new, batch=BATCH, lora="rank=2", train=params, freeze=freeze)
            roles = artifact.manifest.of_role(Role.PARAMETER)
            names = {item.spec.name for item in roles if "lora" not in item.spec.name}
            trained[bool(params), bool(freeze)] = names
            said = [note for note in artifact.manifest.notes if "the head is new" in note]
            assert len(said) == (params is None)
    assert trained == {
        (False, False): {"head.weight", "head.bias"},
        (False, True): {"head.weight"},
        (True, False): {"conv.bias"},
    }
    artifact = odtc.compile(new, batch=BATCH, lora="rank=2", freeze=["head*"])
    assert all("lora" in item.spec.name for item in artifact.manifest.of_role(Role.PARAMETER))

    trainer = odtc.compile(new, batch=BATCH, lora="rank=2").trainer()
    before = trainer.parameters()
    x, y = np.random.default_rng(0).standard_normal((BATCH, 3, 8)), np.arange(BATCH) % 3
    trainer.step(x.astype(np.float32), y, lr=0.1)
    assert not np.array_equal(trainer.parameters()["head.weight"], before["head.weight"])
    trainer.export_onnx(tmp_path / "trained.onnx")
    assert read_new_head(onnx.load(tmp_path / "trained.onnx")) == ()
    trainer.export_peft(tmp_path / "folder")
    assert '"modules_to_save": [\n    "head"' in (
        (tmp_path / "folder" / "adapter_config.json").read_text()
    )


@pytest.mark.parametrize("text", ["[", "{}", "[1]", "1"])
def test_a_damaged_list_of_a_new_head(text: str, net: tuple[nn.Module, Path]) -> None:
    model = onnx.load(net[1])
    model.metadata_props.add(key=KEY, value=text)
    onnx.save(model, net[1])
    with pytest.raises(ModelError, match="the names of the new head's parameters are damaged"):
        odtc.compile(net[1], batch=BATCH, lora="rank=2")
