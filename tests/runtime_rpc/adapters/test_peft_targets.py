"""Adapters that a folder's configuration does not target are refused, as PEFT leaves them out."""

import copy
import json
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from peft import LoraConfig, PeftModel
from peft.tuners.tuners_utils import check_target_module_exists
from safetensors.numpy import load_file, save_file

from odtc.core.adapters import Adapter
from odtc.core.errors import ArtifactError
from odtc.runtime_rpc.adapters import bounded_patterns
from odtc.runtime_rpc.adapters.peft_config import check_config
from odtc.runtime_rpc.adapters.peft_targets import check_targets
from tests.runtime_rpc.adapters.conftest import StepOf
from tests.runtime_rpc.adapters.language_models import tokens
from tests.runtime_rpc.adapters.sides import logits

MODULES = (
    *("model.layers.0.self_attn.q_proj", "model.layers.1.self_attn.q_proj", "q_proj"),
    *("model.layers.1.mlp.experts.0.up_proj", "model.blocks.0.mlp.up_proj", "lm_head"),
)
# That none, some, or all of the modules are targeted by.
CONFIGS: tuple[dict[str, Any], ...] = (
    {"target_modules": ["q_proj", "up_proj", "lm_head"]},
    {"target_modules": ["q_proj"]},
    {"target_modules": ["proj"]},
    {"target_modules": ["self_attn.q_proj", "model.blocks.0.mlp.up_proj"]},
    {"target_modules": []},
    {"target_modules": None, "target_parameters": ["lm_head.weight"]},
    {"target_modules": "q_proj"},
    {"target_modules": r".*\.(q|up)_proj"},
    {"target_modules": r"model.layers.0.self_attn.q_proj"},
    {"target_modules": r".*_proj|lm_head"},
    {"target_modules": ["q_proj", "up_proj"], "exclude_modules": ["up_proj"]},
    {"target_modules": ["q_proj", "up_proj"], "exclude_modules": r".*\.1\..*"},
    {"target_modules": ["q_proj", "lm_head"], "modules_to_save": ["lm_head"]},
    {"target_modules": ["q_proj", "up_proj"], "modules_to_save": ["self_attn", "m.*p"]},
    {"target_modules": ["q_proj", "up_proj"], "layers_to_transform": [0]},
    {"target_modules": ["q_proj", "up_proj"], "layers_to_transform": 1},
    {"target_modules": ["q_proj", "up_proj"], "layers_to_transform": []},
    {
        "target_modules": ["q_proj", "up_proj"],
        "layers_to_transform": [0],
        "layers_pattern": "blocks",
    },
    {
        "target_modules": ["q_proj", "up_proj"],
        "layers_to_transform": [0, 1],
        "layers_pattern": ["experts", "lay.*s"],
    },
)


@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_a_module_is_targeted_where_peft_does(config: dict[str, Any]) -> None:
    theirs = LoraConfig()
    for name, value in config.items():
        setattr(theirs, name, value)
    for module in MODULES:
        adapter = Adapter(f"{module}.weight", f"{module}.lora_A.weight", f"{module}.lora_B", 1.0)
        found = check_target_module_exists(theirs, module)
        is_targeted = bool(found) and "Excluded" not in type(found).__name__
        refused = pytest.raises(ArtifactError, match=f"has adapters of {module}, which")
        with nullcontext() if is_targeted else refused:
            check_targets(config, [adapter], "there")


@pytest.mark.parametrize("targets", ["all-linear", "All-Linear"])
def test_all_linear_is_all_but_embeddings(targets: str) -> None:
    linear = Adapter("a.weight", "a.lora_A.weight", "a.lora_B.weight", 1.0)
    words = Adapter("b.weight", "b.lora_embedding_A", "b.lora_embedding_B", 1.0)
    check_targets({"target_modules": targets}, [linear], "there")
    with pytest.raises(ArtifactError, match="has adapters of b, which"):
        check_targets({"target_modules": targets}, [linear, words], "there")


@pytest.mark.parametrize(
    "config",
    [
        {"target_modules": 5},
        {"target_modules": [5]},
        {"target_modules": {"q_proj": 1}},
        {"target_modules": ["a"], "exclude_modules": 5},
        {"target_modules": ["b"], "layers_to_transform": "x"},
        {"target_modules": ["b"], "layers_to_transform": [0], "layers_pattern": 5},
    ],
    ids=str,
)
def test_what_is_no_list_of_names(config: dict[str, Any]) -> None:
    adapter = Adapter("a.b.weight", "a.b.lora_A.weight", "a.b.lora_B.weight", 1.0)
    with pytest.raises(ArtifactError, match=r"not a list of (names|numbers)"):
        check_targets(config, [adapter], "there")


HOSTILE = "(.*)*(.*)*(.*)*(.*)*="


@pytest.mark.parametrize("field", ["target_modules", "rank_pattern"])
def test_an_expression_without_an_end_is_ended(field: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_patterns, "SECONDS", 0.2)
    name = "model.layers.0.self_attn.q_proj"
    adapter = Adapter(f"{name}.weight", f"{name}.lora_A.weight", f"{name}.lora_B.weight", 1.0)
    given = {"target_modules": HOSTILE, "rank_pattern": {HOSTILE: 2}}
    config = {"peft_type": "LORA", field: given[field]}
    check: Callable[[], None] = {
        "target_modules": lambda: check_targets(config, [adapter], "there"),
        "rank_pattern": lambda: check_config(config, [adapter], {adapter.down: (4, 2)}, "there"),
    }[field]
    with pytest.raises(ArtifactError, match=r"could not be matched within 0\.2 s"):
        check()


def test_a_folder_that_names_fewer_modules_than_its_file_has(
    step_of: StepOf, tmp_path: Path
) -> None:
    module, artifact = step_of("llama")
    trainer, (ids, labels) = artifact.trainer(threads=1), tokens(0)
    trainer.step(ids.numpy(), labels.numpy(), lr=0.1)
    trainer.export_peft(tmp_path / "mine")
    file = tmp_path / "mine" / "adapter_config.json"
    whole = json.loads(file.read_text())
    file.write_text(json.dumps(whole | {"target_modules": ["q_proj"]}))
    theirs = PeftModel.from_pretrained(copy.deepcopy(module), tmp_path / "mine")
    assert np.abs(logits(theirs, ids) - trainer.evaluate(ids.numpy())).max() > 1e-3
    other = artifact.trainer(threads=1)
    before = other.parameters()
    with pytest.raises(ArtifactError, match=r"has adapters of lm_head, .* and 1 more, which"):
        other.load_adapters(tmp_path / "mine")
    assert all(np.array_equal(before[name], value) for name, value in other.parameters().items())
    names = r"(model\.)?(layers\.\d+\.\w+\.(q|k|down)_proj|lm_head|embed_tokens)"
    file.write_text(json.dumps(whole | {"target_modules": names}))
    other.load_adapters(tmp_path / "mine")
    np.testing.assert_array_equal(other.evaluate(ids.numpy()), trainer.evaluate(ids.numpy()))


def test_adapters_of_integers_are_refused(step_of: StepOf, tmp_path: Path) -> None:
    trainer = step_of("llama")[1].trainer(threads=1)
    trainer.export_peft(tmp_path / "mine")
    file = tmp_path / "mine" / "adapter_model.safetensors"
    save_file({name: value.astype(np.int32) for name, value in load_file(file).items()}, file)
    for given in (file, tmp_path / "mine"):
        with pytest.raises(ArtifactError, match=r"floating-point numbers, and .* is of int32"):
            trainer.load_adapters(given)
