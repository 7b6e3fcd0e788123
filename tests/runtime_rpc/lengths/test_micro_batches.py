"""Steps of several lengths as micro-batches: each length has the same number of them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import odtc
from tests.native.on_gpu.same_run import KINDS, assert_close
from tests.runtime_rpc.lengths.languages import (
    LENGTHS,
    LOSS,
    TARGET,
    Batch,
    decoder,
    ragged,
    save,
    words,
)
from tests.runtime_rpc.own_server import NATIVE, serving

MODULE = decoder(is_causal=True, has_mask=True)
BATCH, LR = 4, 0.1
ROWS = ((3, 4, 1, 2), (12, 9, 3, 1), (7, 2, 5, 4), (5, 5, 8, 1), (1, 2, 2, 1), (12, 12, 12, 12))
TAKEN = (4, 12, 8, 8, 4, 12)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(MODULE, tmp_path_factory.mktemp("lengths") / "decoder.onnx")


def compiled(file: Path, **options: Any) -> odtc.Artifact:
    update = odtc.Update(odtc.AdamW(), accumulate=2, ema=0.9)
    usual = {"batch": BATCH, "loss": LOSS, "optimizer": update, "lengths": LENGTHS}
    given: dict[str, Any] = usual | options
    return odtc.compile(file, TARGET, **given)


@pytest.fixture(scope="module")
def parts(file: Path) -> odtc.Artifact:
    return compiled(file, micro_batches=2)


def batches() -> list[Batch]:
    return [ragged(MODULE, rows, LENGTHS[-1], seed) for seed, rows in enumerate(ROWS)]


def run(trainer: odtc.Trainer, **more: Any) -> tuple[list[float], list[int], dict[str, Any]]:
    losses, lengths = [], []
    for loss in trainer.train(batches(), LR, **more):
        losses.append(loss)
        lengths.append(trainer.length)
    return losses, lengths, trainer.parameters()


def test_losses_are_those_of_whole_batches(file: Path, parts: odtc.Artifact) -> None:
    assert parts.manifest.micro_batches == 2
    with compiled(file).trainer(threads=1) as whole, parts.trainer(threads=1) as trainer:
        expected, found = run(whole), run(trainer)
        assert found[1] == [*TAKEN] == expected[1]
        np.testing.assert_allclose(found[0], expected[0], rtol=1e-5)
        for name, value in found[2].items():
            np.testing.assert_allclose(value, expected[2][name], rtol=1e-3, atol=1e-4)
        for width in (3, 4, 7, 12):
            inputs, _ = ragged(MODULE, (width,) * 5, width, width)
            np.testing.assert_allclose(
                trainer.evaluate(inputs), whole.evaluate(inputs), rtol=1e-2, atol=1e-3
            )


def test_one_length_alone_has_the_same_bits(file: Path, parts: odtc.Artifact) -> None:
    for length in LENGTHS:
        rows = [ragged(MODULE, (length, 2, 1, 3), length, seed) for seed in range(4)]
        one = compiled(file, lengths=length, micro_batches=2)
        with one.trainer(threads=1) as alone, parts.trainer(threads=1) as trainer:
            assert [alone.step(*each, lr=LR) for each in rows] == [
                trainer.step(*each, lr=LR) for each in rows
            ]


def test_a_budget_chooses_for_all_lengths(file: Path) -> None:
    whole = compiled(file).manifest
    budget = whole.plans[0].arena_bytes * 2 // 3
    artifact = compiled(file, memory_budget=budget, optimizer=odtc.SGD())
    manifest = artifact.manifest
    assert manifest.micro_batches > 1
    for each in manifest.lengths.values():
        assert each.budget_of(each.plans[0]) <= budget
        assert each.micro_batches == manifest.micro_batches
    with artifact.trainer(threads=1) as trainer:
        assert run(trainer)[1] == [*TAKEN]


def test_checkpoints_and_devices_have_the_same_bits(parts: odtc.Artifact, tmp_path: Path) -> None:
    with parts.trainer(threads=1) as here:
        expected = run(here)
        outputs = here.evaluate(ragged(MODULE, (7,) * 5, 7, 1)[0])
    with serving(tmp_path / "sessions", server=NATIVE) as url, parts.trainer(url) as there:
        found = run(there, steps_per_call=4)
        np.testing.assert_array_equal(there.evaluate(ragged(MODULE, (7,) * 5, 7, 1)[0]), outputs)
        with there.profile(length=12) as part:
            list(there.train([batches()[1]] * 2, LR, 2))
        assert [len(step) for step in part.profile.steps] == [2, 2]
    assert found[:2] == expected[:2]
    for name, value in found[2].items():
        np.testing.assert_array_equal(value, expected[2][name])
    with parts.trainer(threads=1) as first:
        losses = [first.step(*each, lr=LR) for each in batches()[:3]]
        first.save_checkpoint(tmp_path / "c")
    with parts.trainer(threads=1) as second:
        second.load_checkpoint(tmp_path / "c")
        losses += [second.step(*each, lr=LR) for each in batches()[3:]]
    assert losses == expected[0]


@pytest.mark.parametrize("kind", KINDS)
def test_on_a_gpu(kind: str, tmp_path: Path) -> None:
    module = words()
    path = save(module, tmp_path / "words.onnx")
    options: dict[str, Any] = {"batch": BATCH, "loss": LOSS, "lengths": (4, 12)}
    on_gpu = odtc.compile(path, f"host-{kind}", micro_batches=2, **options)
    on_cpu = odtc.compile(path, TARGET, **options)
    fed = [ragged(module, rows, 12, seed) for seed, rows in enumerate(ROWS)]
    with on_gpu.trainer() as gpu, on_cpu.trainer(threads=1) as cpu:
        for found, expected in zip(gpu.train(fed, LR), cpu.train(fed, LR), strict=True):
            assert_close(found, expected)
        inputs = ragged(module, (7,) * 5, 7, 1)[0]
        assert_close(gpu.evaluate(inputs), cpu.evaluate(inputs))
