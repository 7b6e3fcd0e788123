"""What frozen layers make is computed once for each sample: to the same bits, or not at all."""

import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from torch import nn

import odtc
from odtc.core.artifact.bundle import PROGRAM
from odtc.core.errors import DataError, DeviceError, UsageError
from odtc.core.specs import Role
from odtc.runtime_rpc.engines.served import ServedEngine, has_function
from odtc.runtime_rpc.loop.features import making, storage
from tests.native.reader import read
from tests.runtime_rpc.loop.models import saved
from tests.runtime_rpc.own_server import NATIVE, SANITIZED, serving

BATCH, SAMPLES, CLASSES = 4, 27, 3
ONCE, ANEW = "was computed once", "is computed at each step"
SIZE = (3, 12, 12)


def backbone(*more: nn.Module) -> nn.Sequential:
    """Convolutions and a normalisation, in front of a head."""
    torch.manual_seed(0)
    before = [nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 12, 3, 2, 1)]
    after = [nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(12, CLASSES)]
    return nn.Sequential(*before, *more, *after)


def compiled(folder: Path, *more: nn.Module, **options) -> odtc.Artifact:
    """A step that trains the last layer alone."""
    net = backbone(*more)
    for each in [*net][:-1]:
        each.requires_grad_(False)
    path = folder / "net.onnx"
    odtc.from_torch(net.eval(), (torch.zeros(BATCH, *SIZE),), path)
    options = {"freeze_batch_norm": True, "optimizer": "adam"} | options
    return odtc.compile(path, batch=BATCH, **options)


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> odtc.Artifact:
    return compiled(tmp_path_factory.mktemp("frozen"), optimizer=odtc.Update(odtc.Adam(), ema=0.9))


def data(samples: int = SAMPLES, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    drawn = np.random.default_rng(seed)
    y = drawn.integers(0, CLASSES, samples).astype(np.int32)
    x = drawn.standard_normal((samples, *SIZE)).astype(np.float32)
    return x + np.float32(0.3) * y.astype(np.float32)[:, None, None, None], y


def fitted(trainer: odtc.Trainer, samples=None, **options) -> tuple[odtc.History, str]:
    """A run, and what it says of features."""
    given = {"lr": 0.02, "epochs": 4, "validation": data(10, seed=1), "metrics": ["accuracy"]}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        history = trainer.fit(data() if samples is None else samples, **given | options)
    said = [str(each.message) for each in caught if "frozen layers" in str(each.message)]
    assert len(said) <= 1
    return history, "".join(said)


def both(artifact: odtc.Artifact, tmp_path: Path, **options) -> str:
    """A run over features is the one without them, to the bit; what is said of them."""
    plain, kept = artifact.trainer(threads=1), artifact.trainer(threads=1)
    wanted, nothing = fitted(plain, feature_cache=0, **options)
    found, said = fitted(kept, **options)
    assert nothing == ""
    assert found.rows == wanted.rows
    assert saved(kept, tmp_path / "kept") == saved(plain, tmp_path / "plain")
    return said


@pytest.mark.parametrize("ema", [False, True])
def test_a_run_over_features_is_the_same_to_the_bit(
    artifact: odtc.Artifact, tmp_path: Path, ema: bool
):
    """27 samples in batches of 4; of 10 of the validation 2 fill no micro-batch."""
    said = both(artifact, tmp_path, ema=ema, validate_every=3)
    bytes_of_features = (SAMPLES + 8) * 12 * 4
    assert f"27 samples and 8 of the validation {ONCE}, {bytes_of_features:,} bytes" in said
    assert "each step is spared" in said


def test_micro_batches_and_several_plans(tmp_path: Path):
    assert ONCE in both(compiled(tmp_path, micro_batches=2), tmp_path)
    assert ONCE in both(compiled(tmp_path, memory_budget="auto"), tmp_path)


def test_no_frozen_layer_runs_in_a_step(artifact: odtc.Artifact):
    """The parts make the calls of the whole, each of them once."""
    of_step = artifact.manifest.features[0]
    plan = artifact.manifest.plans[0].function
    lines = {each["name"]: [kernel for kernel, _ in each["calls"]] for each in program(artifact)}
    first, over = lines[of_step.first], lines[of_step.over]
    assert sorted(first + over) == sorted(lines[plan])
    assert any("convolution" in kernel for kernel in first)
    assert not any("convolution" in kernel for kernel in over)


def program(artifact: odtc.Artifact) -> list[dict]:
    """The functions of an artifact's program."""
    return read((artifact._bundle.root / PROGRAM).read_bytes()).functions


def test_a_run_goes_on_with_features_or_without(artifact: odtc.Artifact, tmp_path: Path):
    path = tmp_path / "c.ckpt"
    whole = artifact.trainer(threads=1)
    wanted, _ = fitted(whole, epochs=8)

    class Cut(odtc.Callback):
        def on_train_batch_end(self, run, step, loss) -> None:
            if step == 11:
                raise KeyboardInterrupt

    for first, then in ((0, "1GiB"), ("1GiB", 0)):
        path.unlink(missing_ok=True)
        kept = [odtc.Checkpoint(path, every=1)]
        with pytest.raises(KeyboardInterrupt):
            fitted(
                artifact.trainer(threads=1),
                epochs=8,
                callbacks=[*kept, Cut()],
                resume=path,
                feature_cache=first,
            )
        trainer = artifact.trainer(threads=1)
        found, said = fitted(trainer, epochs=8, callbacks=kept, resume=path, feature_cache=then)
        assert (ONCE in said) == bool(then)
        assert found.rows == wanted.rows
        assert saved(trainer, tmp_path / "parts") == saved(whole, tmp_path / "whole")


def test_the_export_is_the_whole_model(artifact: odtc.Artifact, tmp_path: Path):
    trainer = artifact.trainer(threads=1)
    assert ONCE in fitted(trainer)[1]
    trainer.export_onnx(tmp_path / "trained.onnx")
    x = data()[0]
    session = onnxruntime.InferenceSession(tmp_path / "trained.onnx")
    (scores,) = session.run(None, {session.get_inputs()[0].name: x[:1]})
    np.testing.assert_allclose(scores, trainer.evaluate(x[:1]), rtol=1e-4, atol=1e-5)


def test_batch_statistics_and_dropout_stay_in_the_step(tmp_path: Path):
    """What comes before them is kept, and no more."""
    said = both(compiled(tmp_path, freeze_batch_norm=False), tmp_path)
    assert "compile with --freeze-batch-norm to keep it" in said
    dropping = compiled(tmp_path, nn.Dropout(0.5))
    kept = {item.spec.shape for item in dropping.manifest.features[0].arguments}
    assert (BATCH, 12) not in kept
    both(dropping, tmp_path)


class Centred(nn.Module):
    """Takes the mean of a batch off: a sample depends on its company."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x - x.mean(0, keepdim=True)


def test_samples_that_are_mixed_are_not_kept(tmp_path: Path):
    said = both(compiled(tmp_path, Centred()), tmp_path)
    assert f"{ANEW}: what they make of a sample depends on the others of its batch" in said


class Pairs(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        x, y = data()
        return x[number], y[number]


REFUSED = {
    "images are augmented, and others at each step": {"augment": ["flip"]},
    "no sample is taken twice": {"epochs": 1},
    "it takes 1,776 bytes, and 1,024 may be kept": {"feature_cache": "1KiB"},
}


@pytest.mark.parametrize("why", REFUSED)
def test_why_nothing_is_kept(artifact: odtc.Artifact, why: str):
    _, said = fitted(artifact.trainer(threads=1), **REFUSED[why])
    assert f"{ANEW}: {why}" in said


def test_one_reading_that_waits_for_a_core_decides_nothing(
    artifact: odtc.Artifact, monkeypatch: pytest.MonkeyPatch
):
    """The first copy of what was made takes a second."""
    waits, seconds = iter([0.0, 1.0]), making._seconds
    monkeypatch.setattr(making, "_seconds", lambda call: seconds(call) + next(waits, 0.0))
    assert ONCE in fitted(artifact.trainer(threads=1))[1]


def test_data_that_may_be_other_data_is_not_kept(artifact: odtc.Artifact):
    trainer = artifact.trainer(threads=1)
    _, said = fitted(trainer, Pairs())
    assert f"{ANEW}: the Pairs may give another sample each time" in said
    loader = torch.utils.data.DataLoader(Pairs(), BATCH, drop_last=True)
    _, said = fitted(trainer, loader)
    assert f"{ANEW}: the data is gone through anew in each epoch" in said


def test_nothing_is_said_where_nothing_is_frozen(tmp_path: Path):
    path = tmp_path / "net.onnx"
    odtc.from_torch(backbone(), (torch.zeros(BATCH, *SIZE),), path)
    artifact = odtc.compile(path, batch=BATCH)
    assert artifact.manifest.features == ()
    assert fitted(artifact.trainer(threads=1))[1] == ""


def test_frozen_weights_that_change_meanwhile_are_an_error(artifact: odtc.Artifact):
    trainer = artifact.trainer(threads=1)

    class Rewrite(odtc.Callback):
        def on_epoch_end(self, run, row) -> None:
            trainer.set_parameters({"0.weight": trainer.parameters()["0.weight"] * 2})

    with pytest.raises(UsageError, match="frozen weights were given other values") as caught:
        fitted(trainer, callbacks=[Rewrite()])
    assert "feature_cache=0" in str(caught.value.hint)


def test_features_by_hand(artifact: odtc.Artifact):
    """They are of any inputs; a step that cannot give them says so."""
    of_step, x = artifact.manifest.features[0], data()[0][:BATCH]
    trainer = artifact.trainer(threads=1)
    (made,) = trainer.features(of_step, {"input": x}).values()
    assert (made.shape, made.dtype) == ((BATCH, 12), np.float32)
    with pytest.raises(DataError, match=r"has shape \[2, 3, 12, 12\]"):
        trainer.features(of_step, {"input": x[:2]})
    with pytest.raises(UsageError, match="does not compute its frozen layers alone"):
        trainer.features(replace(of_step, of="train"), {"input": x})
    trainer.close()
    with pytest.raises(UsageError, match="closed"):
        trainer.features(of_step, {"input": x})
    with pytest.raises(UsageError, match="closed"):
        assert trainer.frozen_writes


def test_a_cache_in_a_file(
    artifact: odtc.Artifact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(storage, "_IN_MEMORY", 0)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert ONCE in both(artifact, tmp_path)
    assert not [*(tmp_path / "odtc").rglob("*tmp*")]


@pytest.mark.parametrize("micro_batches", [1, 2])
def test_a_run_on_a_device_over_features_is_the_same_to_the_bit(tmp_path: Path, micro_batches: int):
    """Several steps are a call; the server is odtc-device with the sanitizers of C."""
    update = odtc.Update("adam", ema=0.9)
    artifact = compiled(tmp_path, optimizer=update, micro_batches=micro_batches)
    run = {"ema": True, "validate_every": 5, "steps_per_call": 3}
    here = artifact.trainer(threads=1)
    wanted, _ = fitted(here, feature_cache=0, **run)
    with (
        serving(tmp_path / "s", server=SANITIZED) as url,
        artifact.trainer(url, threads=1) as trainer,
    ):
        found, said = fitted(trainer, **run)
        whole = 10 if micro_batches == 2 else 8
        assert f"of 27 samples and {whole} of the validation {ONCE}" in said
        assert found.rows == wanted.rows
        assert saved(trainer, tmp_path / "there") == saved(here, tmp_path / "here")
        assert trainer.frozen_writes == 0
        values = trainer.parameters()
        trainer.set_parameters({name: value + 1 for name, value in values.items()})
        assert trainer.frozen_writes == 1


def test_a_device_is_fed_nothing_but_what_a_step_takes(artifact: odtc.Artifact, tmp_path: Path):
    rate = bytearray(np.array([0.1], np.float32).tobytes())
    items = artifact.manifest.arguments
    weight = next(n for n, item in enumerate(items) if item.role is Role.PARAMETER)
    label = next(n for n, item in enumerate(items) if item.role is Role.LABEL)
    with (
        serving(tmp_path / "s", server=SANITIZED) as url,
        artifact.trainer(url, threads=1) as trainer,
    ):
        engine = trainer._engine
        assert isinstance(engine, ServedEngine)
        assert has_function(engine._session, "take_steps_over_features")
        assert not has_function(engine._session, "take_steps_of_another_version")
        for number in (weight, -1, len(items) + 9, 2**31 - 1):
            numbers = bytearray(np.array([label, number], np.int32).tobytes())
            with pytest.raises(DeviceError, match=f"a step is not fed tensor {number}"):
                engine._call("take_steps_over_features", 0, rate, numbers, bytearray(16))
        numbers = bytearray(np.array([label, label], np.int32).tobytes())
        for fed in (bytearray(), bytearray(15), bytearray(17)):
            with pytest.raises(DeviceError, match="a step is fed 16 bytes"):
                engine._call("take_steps_over_features", 0, rate, numbers, fed)
        with pytest.raises(DeviceError, match="and 16 bytes came for 0 steps"):
            engine._call("take_steps_over_features", 0, bytearray(), numbers, bytearray(16))


def test_no_more_is_sent_to_a_device_than_without(tmp_path: Path):
    """Features of 12 numbers of each of 2x2 inputs of 3: whole steps send less."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(12, 64), nn.ReLU(), nn.Linear(64, CLASSES))
    net[1].requires_grad_(False)
    odtc.from_torch(net, (torch.zeros(BATCH, 3, 2, 2),), tmp_path / "n.onnx")
    artifact = odtc.compile(tmp_path / "n.onnx", batch=BATCH)
    x, y = data()
    with serving(tmp_path / "s", server=NATIVE) as url, artifact.trainer(url) as trainer:
        _, said = fitted(trainer, (x[:, :, :2, :2], y), validation=None, metrics=())
    assert f"{ANEW}: 256 bytes a sample would be sent in place of 48" in said


def test_a_server_in_python_takes_whole_steps(tmp_path: Path):
    artifact = compiled(tmp_path)
    with serving(tmp_path / "s") as url, artifact.trainer(url) as trainer:
        found, said = fitted(trainer)
        assert f"{ANEW}: " in said
        assert "takes whole steps" in said
    assert found.rows == fitted(artifact.trainer(threads=1))[0].rows


@pytest.mark.parametrize("given", ["much", -1, None])
def test_a_bound_that_is_none(artifact: odtc.Artifact, given: object):
    with pytest.raises(UsageError, match="feature_cache"):
        fitted(artifact.trainer(threads=1), feature_cache=given)
