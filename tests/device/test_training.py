"""The same artifact's step on an ARM phone's stand-in, over TVM RPC, against the host."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from safetensors.numpy import load_file
from tvm import relax

import odtc
from benchmarks.models.digits import digits_data, digits_model
from benchmarks.models.zoo import zoo_model
from odtc.cli.main import main
from tests.numeric.mlp import batches, blind_weight, mlp_artifact, overflowing

pytestmark = pytest.mark.device

BATCH = 32
MOMENTUM = odtc.SGD(momentum=0.9)


def compile_for(target: str, model: onnx.ModelProto, folder: Path, batch: int) -> odtc.Artifact:
    path = folder / "model.onnx"
    onnx.save(model, path)
    return odtc.compile(path, target=target, batch=batch, optimizer=MOMENTUM)


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, odtc.Artifact]:
    folder = tmp_path_factory.mktemp("digits")
    targets = ("host-cpu", "android-cpu")
    return {target: compile_for(target, digits_model(), folder, BATCH) for target in targets}


def losses(trainer: odtc.Trainer, steps: int) -> list[float]:
    x, y, *_ = digits_data()
    parts = [slice(i * BATCH, (i + 1) * BATCH) for i in range(steps)]
    return [trainer.step(x[part], y[part], lr=0.01) for part in parts]


def test_five_steps_give_the_hosts_losses(artifacts, phone) -> None:
    on_host = artifacts["host-cpu"].trainer()
    on_phone = artifacts["android-cpu"].trainer(device=phone.url)
    np.testing.assert_allclose(losses(on_phone, 5), losses(on_host, 5), rtol=1e-4)
    expected = on_host.parameters()
    for name, value in on_phone.parameters().items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-3, atol=1e-5, err_msg=name)


def test_steps_of_one_call_are_those_of_several(artifacts, phone) -> None:
    artifact, (x, y, *_) = artifacts["android-cpu"], digits_data()
    data = [(x[i : i + BATCH], y[i : i + BATCH]) for i in range(0, 5 * BATCH, BATCH)]
    single, trainer = artifact.trainer(phone.url), artifact.trainer
    expected = list(single.train(data, 0.01))
    weights = single.parameters()
    single.session.close()
    several = trainer(device=phone.url)
    assert list(several.train(data, 0.01, steps_per_call=3)) == expected
    assert all(np.array_equal(v, weights[k]) for k, v in several.parameters().items())


def test_the_phone_allocates_what_was_planned(artifacts, phone_with_tvm) -> None:
    """The arena once, and the loss of each step."""
    artifact, session = artifacts["android-cpu"], odtc.connect(phone_with_tvm.url)
    arenas: list[int] = []

    class Watching(type(session)):
        def load(self, library: Path) -> relax.VirtualMachine:
            machine = super().load(library)
            self.remote.get_function("odtc.watch_storage")(machine.module)
            return machine

        def pages(self) -> Callable[[int], Any]:
            held = super().pages()
            assert held

            def noted(nbytes: int) -> Any:
                arenas.append(nbytes)
                return held(nbytes)

            return noted

    losses(artifact.trainer(Watching(session.name, session.remote)), 3)
    watched = json.loads(str(session.remote.get_function("odtc.watched_storage")()))
    assert arenas == [artifact.memory.arena_bytes]
    assert len(watched) == 3
    assert sum(arenas) + sum(watched) / 3 == artifact.manifest.sizes.train_step


def test_everything_around_the_optimizer_is_the_same_there(phone, tmp_path: Path) -> None:
    update = odtc.Update(
        odtc.LAMB(eps=1e-3),
        groups=[odtc.Group("*.bias", {"weight_decay": 0.0})],
        clip_norm=0.5,
        accumulate=2,
        ema=0.9,
        loss_scale=odtc.LossScale(2.0**127, interval=2),
    )
    on_host = mlp_artifact(tmp_path, update).trainer()
    on_phone = mlp_artifact(tmp_path, update, target="android-cpu").trainer(device=phone.url)
    for trainer in (on_host, on_phone):
        trainer.set_parameters(blind_weight())
    for x, y in overflowing(batches(12), [1, 6]):
        loss = on_host.step(x, y, lr=0.05)
        np.testing.assert_allclose(on_phone.step(x, y, lr=0.05), loss, rtol=1e-4)
    on_host.save_checkpoint(tmp_path / "host")
    on_phone.save_checkpoint(tmp_path / "phone")
    expected = load_file(tmp_path / "host")
    assert expected["update/count"] == on_host.updates - 2
    for name, value in load_file(tmp_path / "phone").items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-3, atol=1e-5, err_msg=name)


@pytest.mark.slow
def test_digits_trained_on_the_phone_run_in_onnxruntime(artifacts, phone, tmp_path: Path) -> None:
    x, y, x_test, y_test = digits_data()
    trainers = {
        "host": artifacts["host-cpu"].trainer(),
        "phone": artifacts["android-cpu"].trainer(device=phone.url),
    }
    accuracy = {}
    for where, trainer in trainers.items():
        rng = np.random.default_rng(0)
        for _ in range(6):
            order = rng.permutation(len(x))[: len(x) // BATCH * BATCH].reshape(-1, BATCH)
            for part in order:
                trainer.step(x[part], y[part], lr=0.02)
        path = tmp_path / f"{where}.onnx"
        trainer.export_onnx(path)
        session = onnxruntime.InferenceSession(path)
        logits = session.run(None, {session.get_inputs()[0].name: x_test})[0]
        accuracy[where] = float((logits.argmax(axis=1) == y_test).mean())
    assert accuracy["phone"] >= 0.97
    # Different vector widths sum in another order; a sample on the border may fall to either side.
    assert abs(accuracy["phone"] - accuracy["host"]) <= 2 / len(y_test)


def test_checkpoint_moves_between_host_and_phone(artifacts, phone, tmp_path: Path) -> None:
    on_host = artifacts["host-cpu"].trainer()
    losses(on_host, 3)
    on_host.save_checkpoint(tmp_path / "host.ckpt")
    on_phone = artifacts["android-cpu"].trainer(device=phone.url)
    on_phone.load_checkpoint(tmp_path / "host.ckpt")
    assert on_phone.steps == 3
    expected = on_host.parameters()
    assert all(np.array_equal(v, expected[k]) for k, v in on_phone.parameters().items())


def test_the_command_line_trains_on_the_phone(artifacts, phone, tmp_path: Path, capsys) -> None:
    artifacts["android-cpu"].save(tmp_path / "phone.odtc")
    x, y, *_ = digits_data()
    np.savez(tmp_path / "digits.npz", x=x, y=y)
    command = ["train", tmp_path / "phone.odtc", "--data", tmp_path / "digits.npz", "--lr", "0.01"]
    options = ["--steps", "4", "--device", phone.url, "--json"]
    exported = tmp_path / "trained.onnx"
    assert main([str(word) for word in [*command, *options, "--export", exported]]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["steps"], report["emulated"]) == (4, True)
    # Times of an emulator are no results: none may be in the report.
    assert not {"step_ms", "samples_per_second"} & report.keys()
    onnxruntime.InferenceSession(exported)


@pytest.mark.slow
def test_squeezenet_gives_the_hosts_losses(phone, tmp_path: Path) -> None:
    model = zoo_model("squeezenet")
    rng = np.random.default_rng(0)
    batches = [
        (rng.standard_normal((1, 3, 224, 224), dtype=np.float32), rng.integers(0, 1000, 1))
        for _ in range(5)
    ]
    found = {}
    for target, device in (("host-cpu", None), ("android-cpu", phone.url)):
        trainer = compile_for(target, model, tmp_path, 1).trainer(device=device)
        found[target] = [trainer.step(x, y, lr=2e-5) for x, y in batches]
    np.testing.assert_allclose(found["android-cpu"], found["host-cpu"], rtol=1e-4)
