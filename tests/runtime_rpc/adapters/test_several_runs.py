"""Runs of `fit` of one of several adapters: which one it is, and what becomes of the others."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import odtc
from odtc.core.errors import UsageError
from odtc.runtime_rpc.state.checkpoint import read_active
from tests.runtime_rpc.adapters.several import BATCH, LORA, LR, TARGET, Net, batch, kept

DATA = tuple(np.concatenate(each) for each in zip(*map(batch, range(4)), strict=True))


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> odtc.Artifact:
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("net") / "net.onnx"
    odtc.from_torch(Net(), torch.zeros(BATCH, 8), path)
    return odtc.compile(path, TARGET, batch=BATCH, optimizer="adam", **LORA)


def fresh(artifact: odtc.Artifact, *names: str) -> odtc.Trainer:
    """A trainer that has these adapters, too, of which the last one is at work."""
    trainer = artifact.trainer(threads=1)
    for name in names:
        trainer.add_adapter(name)
        trainer.set_adapter(name)
    return trainer


def run(trainer: odtc.Trainer, steps: int, **more: Any) -> None:
    trainer.fit(DATA, lr=LR, steps=steps, **more)


CALLBACKS: dict[str, Callable[[Path], odtc.Callback]] = {
    "last": odtc.Checkpoint,
    "best": lambda path: odtc.BestCheckpoint(path, "loss"),
}


@pytest.mark.parametrize("name", CALLBACKS)
def test_a_run_loses_no_other_adapter(name: str, artifact: odtc.Artifact, tmp_path: Path) -> None:
    path = tmp_path / "c"
    keep = lambda: [CALLBACKS[name](path)]  # noqa: E731
    with fresh(artifact, "alice") as trainer:
        run(trainer, 2)
        trainer.set_adapter("default")
        run(trainer, 3, callbacks=keep())
    before = path.read_bytes()
    both = "default, alice"
    for names, lost in {(): "alice", ("bob",): both, ("alice", "bob"): both}.items():
        with fresh(artifact, *names) as trainer:
            with pytest.raises(UsageError, match=f"replace it and lose the steps of {lost}\n"):
                run(trainer, 1, callbacks=keep())
            assert trainer.steps == 0
    assert path.read_bytes() == before
    with fresh(artifact) as trainer:
        trainer.load_checkpoint(path)
        trainer.add_adapter("bob")
        trainer.set_adapter("bob")
        run(trainer, 1, callbacks=keep())
    with fresh(artifact) as trainer:
        trainer.load_checkpoint(path)
        assert trainer.adapters == ("default", "alice", "bob")
        # That at work may begin anew.
        trainer.delete_adapter("default")
        trainer.set_adapter("alice")
        trainer.delete_adapter("bob")
        with pytest.raises(UsageError, match="lose the steps of default, bob"):
            run(trainer, 1, callbacks=keep())


def test_the_best_is_of_the_adapter_at_work(artifact: odtc.Artifact, tmp_path: Path) -> None:
    """The file has bob's best, of the same step as alice's: she has none of her own any more."""
    best, last = tmp_path / "best", tmp_path / "last"
    callbacks = lambda: [odtc.BestCheckpoint(best, "loss", restore=True), odtc.Checkpoint(last)]  # noqa: E731
    with fresh(artifact, "alice", "bob") as trainer:
        for name in ("alice", "bob"):
            trainer.set_adapter(name)
            run(trainer, 4, callbacks=callbacks())
    with fresh(artifact) as trainer:
        trainer.load_checkpoint(last)
        trainer.set_adapter("alice")
        trainer.save_checkpoint(last)
        with pytest.warns(UserWarning, match="the run is finished at step 4"):
            run(trainer, 4, resume=str(last), callbacks=callbacks())
        assert trainer.active_adapter == "alice"


def test_it_is_said_that_the_best_of_another_is_replaced(
    artifact: odtc.Artifact, tmp_path: Path
) -> None:
    """A file has of each other adapter what the trainer has of it, which may not be its best."""
    best = lambda: [odtc.BestCheckpoint(tmp_path / "best", "loss")]  # noqa: E731
    with fresh(artifact, "alice") as trainer:
        run(trainer, 1, callbacks=best())
        run(trainer, 2)
        trainer.add_adapter("bob")
        trainer.set_adapter("bob")
        with pytest.warns(UserWarning, match="replaces alice of step 1 by that of step 3; a file"):
            run(trainer, 1, callbacks=best())


def test_files_that_are_kept_lose_no_other_adapter(artifact: odtc.Artifact, tmp_path: Path) -> None:
    keep = lambda: [odtc.Checkpoint(tmp_path / "c.ckpt", every=2, keep=2)]  # noqa: E731
    with fresh(artifact, "alice") as trainer:
        run(trainer, 4, callbacks=keep())
        (tmp_path / "c.ckpt").unlink()
    (tmp_path / "c-step9.ckpt").write_bytes((tmp_path / "c-step4.ckpt").read_bytes())
    before = (tmp_path / "c-step2.ckpt").read_bytes()
    with fresh(artifact, "bob") as trainer:
        run(trainer, 1, callbacks=keep())
        (tmp_path / "c.ckpt").unlink()
        with pytest.raises(UsageError, match=r"lose the steps of alice\n.*c-step2\.ckpt"):
            run(trainer, 4, callbacks=keep())
    assert (tmp_path / "c-step2.ckpt").read_bytes() == before


def test_files_that_another_adapter_keeps_stay(artifact: odtc.Artifact, tmp_path: Path) -> None:
    keep = lambda: [odtc.Checkpoint(tmp_path / "c", every=2, keep=2)]  # noqa: E731
    with fresh(artifact, "alice") as trainer:
        run(trainer, 4, callbacks=keep())
        trainer.add_adapter("bob")
        trainer.set_adapter("bob")
        with pytest.warns(UserWarning, match="replaces alice of step 2 by that of step 4; a file"):
            run(trainer, 4, callbacks=keep())
        trainer.set_adapter("alice")
        # Of her four steps the second has bob's name by now.
        run(trainer, 6, resume=str(tmp_path / "c"), callbacks=keep())
        assert {path.name for path in tmp_path.iterdir()} == {"c", "c-step2", "c-step4", "c-step6"}
        assert read_active(tmp_path / "c-step2") == "bob"


@pytest.fixture(scope="module")
def two(artifact: odtc.Artifact, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of runs of `default`, of two steps, and of `bob`, of three, who is at work."""
    path = tmp_path_factory.mktemp("two") / "c"
    with fresh(artifact) as trainer:
        run(trainer, 2)
        trainer.add_adapter("bob")
        trainer.set_adapter("bob")
        run(trainer, 3, callbacks=[odtc.Checkpoint(path)])
    return path


def all_of(trainer: odtc.Trainer) -> dict[str, tuple[int, dict[str, bytes]]]:
    found = {}
    for name in trainer.adapters:
        trainer.set_adapter(name)
        found[name] = trainer.steps, kept(trainer)
    return found


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("names", "name"), [(("bob",), "default"), (("bob",), "bob"), ((), "default")]
)
def test_a_run_goes_on_with_the_adapter_that_is_set(
    names: tuple[str, ...], name: str, artifact: odtc.Artifact, two: Path
) -> None:
    with fresh(artifact) as alone, fresh(artifact) as before, fresh(artifact, *names) as trainer:
        run(alone, 5)
        before.load_checkpoint(two)
        trainer.set_adapter(name)
        run(trainer, 5, resume=str(two))
        assert (trainer.active_adapter, trainer.steps) == (name, 5)
        assert [row["step"] for row in trainer.history][-1] == 5
        assert all_of(trainer) == all_of(before) | {name: (5, kept(alone))}


def test_where_nobody_chose_it_is_said_which_goes_on(artifact: odtc.Artifact, two: Path) -> None:
    with fresh(artifact) as trainer:
        with pytest.warns(UserWarning, match="adapters default, bob the run goes on with bob"):
            run(trainer, 4, resume=str(two))
        assert (trainer.active_adapter, trainer.steps) == ("bob", 4)


def test_a_run_of_an_adapter_that_the_checkpoint_has_not(
    artifact: odtc.Artifact, two: Path
) -> None:
    with fresh(artifact, "eve") as trainer:
        before = all_of(trainer)
        with pytest.raises(UsageError, match="the adapters default, bob, but not 'eve'"):
            run(trainer, 4, resume=str(two))
        assert all_of(trainer) == before


def test_no_checkpoint_of_another_adapter_is_loaded_within_a_run(
    artifact: odtc.Artifact, two: Path
) -> None:
    with fresh(artifact) as trainer:
        trainer.load_checkpoint(two)
        load = [lambda _: trainer.load_checkpoint(two)]
        run(trainer, 4, callbacks=load)
        assert trainer.steps == 3
        trainer.set_adapter("default")
        with pytest.raises(UsageError, match="'default' is in a run of fit, which would go on wit"):
            run(trainer, 4, callbacks=load)
        assert (trainer.active_adapter, trainer.steps) == ("default", 6)
