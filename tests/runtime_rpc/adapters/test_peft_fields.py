"""Each field of PEFT's configuration is compared, refused, told, or of no value."""

import copy
import dataclasses
import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.numpy import load_file
from torch import nn

import odtc
from odtc.core.errors import ArtifactError, UnsupportedError
from odtc.runtime_rpc.adapters.peft_fields import (
    COMPARED,
    KNOWN,
    OF_MODULES,
    OF_NO_VALUE,
    REFUSED,
    TOLD,
)

RANK, ALPHA, BATCH = 2, 6, 4
NAMES = ["first", "last"]


class Net(nn.Module):
    """Words, and two layers with biases."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(8, 6)
        self.first, self.last, self.head = nn.Linear(6, 6), nn.Linear(6, 4), nn.Linear(4, 5)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(torch.tanh(self.last(torch.tanh(self.first(self.words(ids))))))


Sides = tuple[nn.Module, odtc.Artifact]


def compiled(folder: Path, train: list[str] | None = None, **lora: Any) -> Sides:
    torch.manual_seed(0)
    module = Net()
    odtc.from_torch(module, torch.zeros(BATCH, dtype=torch.int64), folder / "net.onnx")
    given = {"rank": RANK, "alpha": ALPHA, "targets": "first.weight|last.weight", **lora}
    update = odtc.Update("sgd", ema=0.9)
    return module, odtc.compile(
        folder / "net.onnx",
        batch=BATCH,
        optimizer=update,
        lora=odtc.LoRA(**given),
        train=train,
    )


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Sides:
    return compiled(tmp_path_factory.mktemp("sides"))


def theirs(module: nn.Module, **options: Any) -> PeftModel:
    """PEFT's model, with adapters and biases that are not those of the beginning."""
    torch.manual_seed(1)
    given = {"r": RANK, "lora_alpha": ALPHA, "target_modules": NAMES, **options}
    model = get_peft_model(copy.deepcopy(module), LoraConfig(**given))
    with torch.no_grad():
        for value in model.parameters():
            if value.requires_grad:
                value.add_(torch.randn(value.shape) * 0.3)
    return model.eval()


def ids() -> torch.Tensor:
    return torch.arange(BATCH) % 8


def assert_same(trainer: odtc.Trainer, model: nn.Module) -> None:
    with torch.no_grad():
        wanted = model(ids()).numpy()
    np.testing.assert_allclose(trainer.evaluate(ids().numpy()), wanted, rtol=1e-5, atol=1e-5)


def test_each_field_of_peft_has_one_place() -> None:
    places = COMPARED, REFUSED, OF_MODULES, OF_NO_VALUE, TOLD
    assert sum(map(len, places)) == len(KNOWN)
    assert {field.name for field in dataclasses.fields(LoraConfig)} == KNOWN


# What each field is set to, and why the folder is refused then.
REASONS: Mapping[str, tuple[Any, str]] = {
    "peft_type": ("IA3", "peft_type is 'IA3'"),
    "r": (3, "first has rank 3 in the folder, and 2 in the step"),
    "lora_alpha": (7, "first has scale 3.5 in the folder, and 3 in the step"),
    "use_rslora": (True, "first has scale 4.24264 in the folder"),
    "rank_pattern": ({"last": 4}, "last has rank 4 in the folder"),
    "alpha_pattern": ({"la.*": 5}, "last has scale 2.5 in the folder"),
    "use_dora": (True, "the folder has DoRA"),
    "init_lora_weights": ("pissa", "init_lora_weights is 'pissa'"),
    "modules_to_save": (5, "modules_to_save is 5, not a list of names"),
    **{name: ([1], f"{name} is set in the folder") for name in REFUSED},
}


def test_each_field_that_is_compared_or_refused(sides: Sides, tmp_path: Path) -> None:
    assert REASONS.keys() == COMPARED | REFUSED
    theirs(sides[0]).save_pretrained(tmp_path / "theirs")
    file = tmp_path / "theirs" / "adapter_config.json"
    config = json.loads(file.read_text())
    trainer = sides[1].trainer(threads=1)
    before = trainer.parameters()
    for name, (value, reason) in REASONS.items():
        file.write_text(json.dumps(config | {name: value}))
        with pytest.raises(ArtifactError) as caught:
            trainer.load_adapters(tmp_path / "theirs")
        assert reason in caught.value.what, name
    for init in ("olora", "pissa_niter_4", "corda", "loftq", "lora_ga", "later", 3):
        file.write_text(json.dumps(config | {"init_lora_weights": init}))
        with pytest.raises(ArtifactError, match=f"init_lora_weights is {init!r} in the folder"):
            trainer.load_adapters(tmp_path / "theirs")
    assert all(np.array_equal(before[k], v) for k, v in trainer.parameters().items())


def test_fields_that_change_nothing_and_those_that_are_told(sides: Sides, tmp_path: Path) -> None:
    model = theirs(sides[0])
    model.save_pretrained(tmp_path / "theirs")
    file = tmp_path / "theirs" / "adapter_config.json"
    config = json.loads(file.read_text())
    trainer = sides[1].trainer(threads=1)
    silent = dict.fromkeys(OF_NO_VALUE, "x")
    inits = [{"init_lora_weights": init} for init in (True, False, "gaussian", "eva", "orthogonal")]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", ".*nothing says over which base")
        for given in (silent, *inits, {"later_field": None}):
            file.write_text(json.dumps(config | given))
            trainer.load_adapters(tmp_path / "theirs")
    assert_same(trainer, model)
    told = {
        "a dropout of 0.25, the step has 0": {"lora_dropout": 0.25},
        "PEFT trains A alone where": {"init_lora_weights": "mica"},
        "the configuration has later_field, which odtc does not": {"later_field": {"x": 1}},
    }
    for text, given in told.items():
        file.write_text(json.dumps(config | given))
        with pytest.warns(UserWarning, match=text):
            trainer.load_adapters(tmp_path / "theirs")


# Folders that PEFT itself writes, whose tensors a step has no place for.
OTHERS = {
    "lora_bias is set in the folder": {"lora_bias": True},
    "trainable_token_indices is set": {"trainable_token_indices": {"words": [1, 2]}},
    "init_lora_weights is 'olora'": {"init_lora_weights": "olora"},
}


HINTS: Mapping[str, tuple[dict[str, Any], str]] = {
    "another kind": ({"peft_type": "VERA"}, "odtc trains LoRA and DoRA alone"),
    "DoRA": ({"use_dora": True}, "--lora rank=R,alpha=ALPHA,dora=true"),
    "a bias": ({"lora_bias": True}, "odtc trains plain LoRA and DoRA alone"),
    "a rank": ({"r": 3}, "compile the step with the folder's rank and alpha"),
}


@pytest.mark.parametrize("case", HINTS)
def test_the_hint_is_about_what_differs(case: str, sides: Sides, tmp_path: Path) -> None:
    trainer = sides[1].trainer(threads=1)
    trainer.export_peft(tmp_path / "mine")
    file = tmp_path / "mine" / "adapter_config.json"
    given, hint = HINTS[case]
    file.write_text(json.dumps(json.loads(file.read_text()) | given))
    with pytest.raises(ArtifactError) as caught:
        trainer.load_adapters(tmp_path / "mine")
    assert hint in caught.value.hint


@pytest.mark.parametrize("reason", OTHERS)
def test_folders_of_other_kinds(reason: str, sides: Sides, tmp_path: Path) -> None:
    theirs(sides[0], **OTHERS[reason]).save_pretrained(tmp_path / "theirs")
    with pytest.raises(ArtifactError, match=reason):
        sides[1].trainer(threads=1).load_adapters(tmp_path / "theirs")


def test_adapters_of_a_changed_base_fit_once_peft_has_converted_them(tmp_path: Path) -> None:
    module, artifact = compiled(tmp_path, rank=2 * RANK, alpha=2 * ALPHA)
    torch.manual_seed(1)
    options = {"r": RANK, "lora_alpha": ALPHA, "target_modules": NAMES}
    model = get_peft_model(copy.deepcopy(module), LoraConfig(init_lora_weights="pissa", **options))
    model.peft_config["default"].init_lora_weights = True
    model.save_pretrained(tmp_path / "first")
    model.peft_config["default"].init_lora_weights = "pissa"
    with torch.no_grad():
        for value in model.parameters():
            if value.requires_grad:
                value.add_(torch.randn(value.shape) * 0.3)
    model.save_pretrained(
        tmp_path / "theirs", path_initial_model_for_weight_conversion=str(tmp_path / "first")
    )
    trainer = artifact.trainer(threads=1)
    trainer.load_adapters(tmp_path / "theirs")
    assert_same(trainer, model.eval())


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"bias": "lora_only"}, "first.bias, last.bias"),
        ({"bias": "all"}, "first.bias, head.bias, last.bias"),
        ({"modules_to_save": ["head"]}, "head.bias, head.weight"),
    ],
    ids=["lora_only", "all", "head"],
)
def test_what_is_trained_beside_the_adapters_there_alone(
    options: dict, names: str, sides: Sides, tmp_path: Path
) -> None:
    model = theirs(sides[0], **options)
    model.save_pretrained(tmp_path / "theirs")
    trainer = sides[1].trainer(threads=1)
    with pytest.warns(UserWarning, match=f"{names} of the folder were trained there: .*--train"):
        trainer.load_adapters(tmp_path / "theirs")
    assert_same(trainer, model)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", ".*nothing says over which base|.*as the step has it")
        trainer.load_adapters(tmp_path / "theirs")


def test_a_module_that_is_saved_as_it_was_is_told(sides: Sides, tmp_path: Path) -> None:
    torch.manual_seed(1)
    options = {"r": RANK, "lora_alpha": ALPHA, "target_modules": NAMES, "modules_to_save": ["head"]}
    model = get_peft_model(copy.deepcopy(sides[0]), LoraConfig(**options))
    model.save_pretrained(str(tmp_path / "theirs"))
    trainer = sides[1].trainer(threads=1)
    said = r"saves head.bias, head.weight whole \(modules_to_save\), as the step has it, .*--train"
    with pytest.warns(UserWarning, match=said) as caught:
        trainer.load_adapters(tmp_path / "theirs")
    assert not any("were trained there" in str(each.message) for each in caught)


# What is trained beside the adapters, PEFT's word for the biases, and the modules that it saves.
BIASES: Mapping[str, tuple[list[str], str, list[str] | None]] = {
    "those of adapted modules": (["first.bias", "last.bias"], "lora_only", None),
    "all": (["*.bias"], "all", None),
    "and a head": (["first.bias", "last.bias", "head*"], "lora_only", ["head"]),
    "that of a head": (["head*"], "none", ["head"]),
}


@pytest.mark.parametrize("dora", [False, True])
@pytest.mark.parametrize("case", BIASES)
def test_biases_go_both_ways(case: str, dora: bool, tmp_path: Path) -> None:
    train, bias, saved = BIASES[case]
    module, artifact = compiled(tmp_path, train, dora=dora)
    trainer = artifact.trainer(threads=1)
    for _ in range(3):
        trainer.step(ids().numpy(), ids().numpy() % 5, lr=0.1)
    trainer.export_peft(tmp_path / "mine")
    config = json.loads((tmp_path / "mine" / "adapter_config.json").read_text())
    assert (config["bias"], config["modules_to_save"]) == (bias, saved)
    again = PeftModel.from_pretrained(copy.deepcopy(module), tmp_path / "mine").eval()
    assert_same(trainer, again)
    again.save_pretrained(str(tmp_path / "again"))
    names = {*load_file(tmp_path / "mine" / "adapter_model.safetensors")}
    assert names == {*load_file(tmp_path / "again" / "adapter_model.safetensors")}
    other = artifact.trainer(threads=1)
    other.load_adapters(tmp_path / "again")
    assert_same(other, again)


def test_the_bias_of_one_adapted_module_alone_has_no_folder(tmp_path: Path) -> None:
    trainer = compiled(tmp_path, ["last.bias"])[1].trainer(threads=1)
    with pytest.raises(UnsupportedError, match=r"hold last.bias, .* or of none, and first.bias is"):
        trainer.export_peft(tmp_path / "mine")
    assert not (tmp_path / "mine").exists()


def test_moving_averages_begin_at_the_adapters(sides: Sides, tmp_path: Path) -> None:
    model = theirs(sides[0])
    model.save_pretrained(tmp_path / "theirs")
    trainer = sides[1].trainer(threads=1)
    trainer.load_adapters(tmp_path / "theirs")
    with torch.no_grad():
        wanted = model(ids()).numpy()
    np.testing.assert_allclose(trainer.evaluate(ids().numpy(), ema=True), wanted, atol=1e-5)


def test_a_file_alone_has_the_steps_scale(sides: Sides, tmp_path: Path) -> None:
    trainer = sides[1].trainer(threads=1)
    trainer.export_adapters(tmp_path / "alone")
    _, other = compiled(tmp_path, alpha=2 * ALPHA)
    with pytest.raises(ArtifactError, match=r"with the scale 3\.0 .*, and the step has 6\.0"):
        other.trainer(threads=1).load_adapters(tmp_path / "alone")
    theirs(sides[0]).save_pretrained(tmp_path / "theirs")
    with pytest.warns(UserWarning, match=r"does not say the scale .*; the step has 3\.0"):
        trainer.load_adapters(tmp_path / "theirs" / "adapter_model.safetensors")


@pytest.mark.parametrize("dora", [False, True])
def test_ranks_and_alphas_by_module_go_both_ways(dora: bool, tmp_path: Path) -> None:
    """Those of `words`, an embedding, are the usual ones."""
    patterns = {"rank_pattern": {"first": 3, "la.*": 4}, "alpha_pattern": {"last": 2}}
    names = [*NAMES, "words"]
    module, artifact = compiled(
        tmp_path,
        targets="first.weight|last.weight|words.weight",
        rank_pattern="first*:3|last*:4",
        alpha_pattern="last*:2",
        dora=dora,
    )
    model = theirs(module, target_modules=names, use_dora=dora, **patterns)
    model.save_pretrained(tmp_path / "theirs")
    trainer = artifact.trainer(threads=1)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*words.weight.* of its base")
        trainer.load_adapters(tmp_path / "theirs")
    assert_same(trainer, model)
    labels = ids().numpy() % 5
    for _ in range(2):
        trainer.step(ids().numpy(), labels, lr=0.1)
    trainer.export_peft(tmp_path / "mine")
    config = json.loads((tmp_path / "mine" / "adapter_config.json").read_text())
    assert (config["lora_alpha"], config["alpha_pattern"]) == (ALPHA, {"^last": 2})
    assert sorted([config["r"], *config["rank_pattern"].values()]) == [RANK, 3, 4]
    again = PeftModel.from_pretrained(copy.deepcopy(module), tmp_path / "mine").eval()
    assert_same(trainer, again)
    again.save_pretrained(tmp_path / "again")
    other = artifact.trainer(threads=1)
    other.load_adapters(tmp_path / "again")
    assert_same(other, again)
