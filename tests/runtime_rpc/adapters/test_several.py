"""Several adapters over one base: each has the bits that it would have alone."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import odtc
from odtc.core.errors import ArtifactError, UsageError
from tests.native.parity import tvm_trainer
from tests.runtime_rpc.adapters.conftest import StepOf
from tests.runtime_rpc.adapters.several import BATCH, LORA, LR, TARGET, Net, batch, kept
from tests.runtime_rpc.adapters.sides import adapted

# Steps of each turn, by name of the adapter: the numbers of batches.
TURNS = (("default", (0, 1)), ("bob", (7, 8, 9)), ("default", (2,)), ("bob", (3,)), ("default", ()))


OPTIONS: dict[str, dict[str, Any]] = {
    "momentum, in updates of two steps": {
        "optimizer": odtc.Update("sgd{momentum=0.9}", accumulate=2, ema=0.5)
    },
    "adam, in micro-batches": {
        "optimizer": "adamw",
        "micro_batches": 2,
        "allow_split_batchnorm": True,
    },
}
Make = Callable[..., odtc.Trainer]


def here(artifact: odtc.Artifact) -> odtc.Trainer:
    return artifact.trainer(threads=1)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("net") / "net.onnx"
    odtc.from_torch(Net(), torch.zeros(BATCH, 8), path)
    return path


@pytest.fixture(scope="module")
def artifact(model: Path) -> odtc.Artifact:
    return odtc.compile(model, TARGET, batch=BATCH, optimizer="adam", **LORA)


@pytest.fixture
def trainer(artifact: odtc.Artifact) -> Iterator[odtc.Trainer]:
    with here(artifact) as trainer:
        yield trainer


@pytest.mark.parametrize("make", [here, tvm_trainer])
@pytest.mark.parametrize("name", OPTIONS)
def test_each_has_the_bits_of_a_trainer_of_its_own(name: str, make: Make, model: Path) -> None:
    artifact = odtc.compile(model, TARGET, batch=BATCH, **LORA, **OPTIONS[name])
    with make(artifact) as trainer, make(artifact) as one, make(artifact) as two:
        alone = {"default": one, "bob": two}
        trainer.add_adapter("bob")
        assert trainer.adapters == ("default", "bob")
        assert trainer.active_adapter == "default"
        for active, seeds in TURNS:
            trainer.set_adapter(active)
            own = alone[active]
            assert trainer.active_adapter == active
            assert kept(trainer) == kept(own)
            for seed in seeds:
                assert trainer.step(*batch(seed), lr=LR) == own.step(*batch(seed), lr=LR)
            assert (trainer.steps, trainer.updates) == (own.steps, own.updates)
            x, _ = batch(5)
            np.testing.assert_array_equal(trainer.evaluate(x), own.evaluate(x))
            assert kept(trainer) == kept(own)


def test_a_switch_copies_no_base(trainer: odtc.Trainer, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is read and written has none of the frozen weights."""
    seen: list[str] = []
    read, write = trainer._engine.read, trainer._engine.write
    of = lambda items: [item.role.value for item in items]  # noqa: E731
    monkeypatch.setattr(trainer._engine, "read", lambda i: (seen.extend(of(i)), read(i))[1])
    monkeypatch.setattr(trainer._engine, "write", lambda v: (seen.extend(of(v)), write(v))[1])
    trainer.add_adapter("bob")
    assert not seen
    trainer.set_adapter("bob")
    assert set(seen) == {"parameter", "statistic", "state"}


def test_runs_go_on_where_their_adapter_was(trainer: odtc.Trainer) -> None:
    data = tuple(np.concatenate(each) for each in zip(*map(batch, range(4)), strict=True))
    trainer.fit(data, lr=LR, epochs=2)
    steps, progress = trainer.steps, trainer.progress
    assert progress
    trainer.add_adapter("bob")
    trainer.set_adapter("bob")
    assert (trainer.steps, trainer.progress) == (0, "")
    with pytest.raises(UsageError, match="'bob' is in a run of fit, which would go on with 'def"):
        trainer.fit(data, lr=LR, callbacks=[lambda _: trainer.set_adapter("default")])
    assert trainer.active_adapter == "bob"
    trainer.set_adapter("default")
    assert (trainer.steps, trainer.progress) == (steps, progress)


def test_one_begins_with_an_exported_one(
    trainer: odtc.Trainer, artifact: odtc.Artifact, tmp_path: Path
) -> None:
    for seed in range(3):
        trainer.step(*batch(seed), lr=LR)
    with pytest.warns(UserWarning, match="does not hold what was trained in addition"):
        trainer.export_adapters(tmp_path / "one")
    trainer.export_peft(tmp_path / "folder")
    own = trainer.parameters()
    with here(artifact) as other:
        other.add_adapter("file", tmp_path / "one")
        other.add_adapter("peft", tmp_path / "folder")
        before = kept(other)
        other.set_adapter("file")
        assert other.steps == 0
        beside = {name for name in own if "running" in name or "head" in name}
        for name, value in other.parameters().items():
            assert np.array_equal(value, own[name]) == (name not in beside), name
        other.set_adapter("peft")
        np.testing.assert_array_equal(other.parameters()["head.weight"], own["head.weight"])
        other.set_adapter("default")
        assert kept(other) == before


def test_the_base_that_adapters_share_stays(step_of: StepOf, tmp_path: Path) -> None:
    """Folders of PEFT may have whole modules that the step does not train."""
    module, artifact = step_of("gpt2")
    theirs = adapted("gpt2", module, modules_to_save=["ln_f"])
    with torch.no_grad():
        for name, value in theirs.named_parameters():
            value.add_("modules_to_save" in name)
    theirs.save_pretrained(str(tmp_path / "theirs"))
    with artifact.trainer(threads=1) as trainer:
        before = kept(trainer)
        with pytest.raises(ArtifactError, match=r"other values of .*ln_f"):
            trainer.add_adapter("bob", tmp_path / "theirs")
        assert trainer.adapters == ("default",)
        trainer.add_adapter("bob")
        with pytest.raises(ArtifactError, match=r"other values of .*ln_f"):
            trainer.load_adapters(tmp_path / "theirs")
        assert kept(trainer) == before
        trainer.delete_adapter("bob")
        with pytest.warns(UserWarning, match="ln_f"):
            trainer.load_adapters(tmp_path / "theirs")


def test_adapters_of_another_rank_are_refused(
    trainer: odtc.Trainer, model: Path, tmp_path: Path
) -> None:
    other = odtc.compile(model, TARGET, batch=BATCH, lora="rank=4,targets=*first*")
    with here(other) as of_rank_4:
        of_rank_4.export_peft(tmp_path / "rank4")
    with pytest.raises(ArtifactError, match="rank"):
        trainer.add_adapter("bob", tmp_path / "rank4")
    assert trainer.adapters == ("default",)


def test_what_is_refused(trainer: odtc.Trainer, model: Path) -> None:
    for name in ("a b", "../a", ".a", "-a", "a" * 65, "é", "a/b"):
        with pytest.raises(UsageError, match="is not a valid adapter name"):
            trainer.add_adapter(name)
    trainer.add_adapter("bob")
    for name in ("bob", "default"):
        with pytest.raises(UsageError, match=f"there is already an adapter '{name}'"):
            trainer.add_adapter(name)
    for call in (trainer.set_adapter, trainer.delete_adapter):
        with pytest.raises(UsageError, match="no adapter 'eve'; the adapters are default, bob"):
            call("eve")
    with pytest.raises(UsageError, match="the adapter 'default' is in use"):
        trainer.delete_adapter("default")
    trainer.delete_adapter("bob")
    assert trainer.adapters == ("default",)
    with here(odtc.compile(model, TARGET, batch=BATCH)) as whole:
        assert (whole.adapters, whole.active_adapter) == ((), "")
        for call in (whole.add_adapter, whole.set_adapter, whole.delete_adapter):
            with pytest.raises(UsageError, match="the step trains no adapters"):
                call("bob")
