"""Steps on a GPU in the native runtime, and what they leave."""

from collections.abc import Callable, Iterator
from functools import cache
from itertools import islice, product
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import odtc
from benchmarks.models.digits import bn_model, digits_model
from benchmarks.models.pytorch.export import export
from benchmarks.models.pytorch.spec import batches as batches_of
from benchmarks.models.pytorch.spec import make
from benchmarks.models.pytorch.table import SMALL
from odtc.artifact import Artifact
from odtc.core.errors import DataError, NumericError
from odtc.runtime_rpc.engines.native import NativeEngine
from odtc.runtime_rpc.native.on_gpu import OnGpu
from tests.fast import fast_if
from tests.native.on_gpu.same_run import KINDS, assert_close, assert_same_run
from tests.native.parity import bits
from tests.native.test_parity import ADAMW, SGD, UPDATES, images
from tests.numeric.mlp import INPUTS, batches, mlp_artifact, overflowing
from tests.numeric.plans.test_memory_budget import tower

Compiled = Callable[..., Artifact]


@pytest.fixture(scope="module")
def perceptron(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    """Steps for a target, by update and options, each compiled once."""

    @cache
    def compiled(target: str, update: object, **options: object) -> Artifact:
        return mlp_artifact(tmp_path_factory.mktemp("mlp"), update, target=target, **options)

    return compiled


@pytest.fixture(scope="module")
def towers(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    """Steps of several plans for a target, each compiled once."""
    onnx.save(tower(layers=3), path := tmp_path_factory.mktemp("tower") / "tower.onnx")

    @cache
    def compiled(target: str) -> Artifact:
        return odtc.compile(path, target, batch=4, optimizer=SGD, memory_budget="auto", seed=3)

    return compiled


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    """Steps of a convolutional net for a target, each compiled once."""
    onnx.save(digits_model(), path := tmp_path_factory.mktemp("digits") / "digits.onnx")
    return cache(lambda target: odtc.compile(path, target, batch=8, optimizer=SGD))


@pytest.fixture(scope="module")
def normed(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    """Steps with batch norms, which evaluate two samples, for a target, each compiled once."""
    onnx.save(bn_model(), path := tmp_path_factory.mktemp("normed") / "m.onnx")
    return cache(lambda target: odtc.compile(path, target, batch=8, optimizer=SGD, eval_batch=2))


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    """Steps of the table's models for a target, each compiled once.

    Of a bias in front of a batch norm the gradient is rounding alone, which Adam makes steps of.
    """
    update = odtc.Update(odtc.SGD(momentum=0.9), ema=0.9)

    @cache
    def exported(name: str) -> Path:
        path = tmp_path_factory.mktemp(name) / "model.onnx"
        export(make(SMALL[name]), next(batches_of(SMALL[name]))[0], path)
        return path

    @cache
    def compiled(target: str, name: str) -> Artifact:
        model, path = SMALL[name], exported(name)
        made = odtc.compile(path, target, batch=model.batch, loss=model.loss, optimizer=update)
        assert made._bundle.program is not None, made.manifest.notes
        return made

    return compiled


FAST_UPDATES = ("opencl", "accumulated"), ("opencl", "scaled"), ("vulkan", "clipped")


@pytest.mark.parametrize(
    "case", fast_if(FAST_UPDATES.__contains__, product(KINDS, UPDATES)), ids=str
)
def test_updates(case: tuple[str, str], tmp_path: Path) -> None:
    kind, name = case

    def compiled(target: str) -> Artifact:
        return mlp_artifact(tmp_path, UPDATES[name], target=target)

    assert_same_run(compiled, kind, tmp_path, batches(5), 0.05)


# Where labels are ignored, each part counts as many as are not.
@pytest.mark.parametrize(
    ("kind", "loss"),
    list(zip(KINDS, ("cross-entropy{ignore-index=0}", "cross-entropy"), strict=True)),
)
def test_micro_batches(kind: str, loss: str, perceptron: Compiled, tmp_path: Path) -> None:
    def compiled(target: str) -> Artifact:
        made = perceptron(target, UPDATES["accumulated"], micro_batches=4, loss=loss)
        assert made.manifest.micro_batches == 4
        return made

    assert_same_run(compiled, kind, tmp_path, batches(5), 0.05)


@pytest.mark.parametrize(("kind", "dora"), list(zip(KINDS, (True, False), strict=True)))
def test_adapters(kind: str, dora: bool, perceptron: Compiled, tmp_path: Path) -> None:
    def compiled(target: str) -> Artifact:
        return perceptron(target, ADAMW, lora=odtc.LoRA(rank=2, dora=dora))

    assert_same_run(compiled, kind, tmp_path, batches(4), 0.05)


@pytest.mark.parametrize("kind", fast_if("vulkan".__eq__, KINDS))
def test_a_convolutional_net(kind: str, digits: Compiled, tmp_path: Path) -> None:
    assert_same_run(digits, kind, tmp_path, images((8, 1, 8, 8), 10), 0.05)


@pytest.mark.parametrize("kind", fast_if("vulkan".__eq__, KINDS))
def test_batch_norms_dropout_and_several_plans(kind: str, towers: Compiled, tmp_path: Path) -> None:
    manifest = towers(f"host-{kind}").manifest
    plans = manifest.plans
    assert len(plans) > 1

    def change(trainer: odtc.Trainer, number: int) -> None:
        plan = plans[number % len(plans)]
        trainer.set_budget(manifest.budget_of(plan))
        assert trainer.plan == plan

    data = images(manifest.inputs[0].shape, 8)
    assert_same_run(towers, kind, tmp_path, data, 0.01, change)


@pytest.mark.parametrize("kind", KINDS)
def test_any_number_of_samples_is_evaluated(kind: str, normed: Compiled) -> None:
    on_gpu, on_cpu = map(normed, (f"host-{kind}", "host-cpu"))
    shape = on_gpu.manifest.inputs[0].shape[1:]
    x = np.random.default_rng(4).standard_normal((19, *shape), np.float32)
    with on_gpu.trainer() as trainer, on_cpu.trainer() as reference:
        for count in (1, 2, 3, 8, 19):
            wanted = reference.evaluate(x[:count])
            assert_close(trainer.evaluate(x[:count]), wanted, count)


FAST_MODELS = (("opencl", "lenet"),)


@pytest.mark.parametrize("case", fast_if(FAST_MODELS.__contains__, product(KINDS, SMALL)), ids=str)
def test_models_of_the_table(case: tuple[str, str], small: Compiled, tmp_path: Path) -> None:
    kind, name = case
    data = list(islice(batches_of(SMALL[name]), 2))
    assert_same_run(lambda target: small(target, name), kind, tmp_path, data, 1e-2)


@pytest.mark.parametrize("kind", KINDS)
def test_updates_that_overflow_are_left_out(
    kind: str, perceptron: Compiled, tmp_path: Path
) -> None:
    scale = odtc.LossScale(initial=2.0**127, interval=3)
    update = odtc.Update(odtc.Adam(eps=1e-3), loss_scale=scale)

    def compiled(target: str) -> Artifact:
        return perceptron(target, update)

    assert_same_run(compiled, kind, tmp_path, overflowing(batches(12), range(3, 9)), 0.05)


@pytest.mark.parametrize("kind", KINDS)
def test_a_loss_that_is_not_finite_is_told(kind: str, perceptron: Compiled) -> None:
    ((x, y),) = batches(1)
    said = []
    for target in ("host-cpu", f"host-{kind}"):
        with perceptron(target, SGD).trainer() as trainer:
            with pytest.raises(NumericError) as caught:
                trainer.step(np.where(x > 1, np.nan, x), y, lr=0.1)
            said.append(str(caught.value))
    assert said[1] == said[0]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_evaluated_meanwhile_does_not_take_the_place_of_the_next_batch(
    kind: str, perceptron: Compiled
) -> None:
    artifact = perceptron(f"host-{kind}", SGD, micro_batches=2)
    data = batches(6)
    with artifact.trainer() as trainer, artifact.trainer() as plain:
        wanted = [bits(plain.step(x, y, lr=0.1)) for x, y in data]
        found = []
        for loss in trainer.train(data, lr=0.1):
            found.append(bits(loss))
            trainer.evaluate(np.zeros((3, INPUTS), np.float32))
        assert found == wanted


@pytest.mark.parametrize("kind", KINDS)
def test_batches_that_fail_while_a_step_is_computed(kind: str, perceptron: Compiled) -> None:
    """Their error comes in its turn, and an interruption at once."""
    artifact = perceptron(f"host-{kind}", SGD)

    def failing(error: BaseException) -> Iterator:
        yield from batches(2)
        raise error

    with artifact.trainer() as trainer:
        assert isinstance(trainer._engine, NativeEngine)
        for error in (ZeroDivisionError("no more"), KeyboardInterrupt()):
            before = trainer.steps
            with pytest.raises(type(error)):
                for _ in trainer.train(failing(error), lr=0.1):
                    pass
            assert trainer.steps >= before + 1
        trainer.step(*batches(1)[0], lr=0.1)


@pytest.mark.parametrize("kind", KINDS)
def test_the_next_batch_is_sent_while_a_step_is_computed(
    kind: str, perceptron: Compiled, monkeypatch: pytest.MonkeyPatch
) -> None:
    artifact = perceptron(f"host-{kind}", SGD)
    done: list[str] = []
    for name in ("send_next_from", "drop_next"):
        original = getattr(OnGpu, name)

        def noted(self: OnGpu, *given: Any, original=original, name=name) -> Any:
            done.append(name)
            return original(self, *given)

        monkeypatch.setattr(OnGpu, name, noted)
    with artifact.trainer() as trainer:
        assert len([*trainer.train(batches(4), lr=0.1)]) == 4
    assert done == ["drop_next", *3 * ["send_next_from"]]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("micro_batches", [1, 2])
def test_what_is_sent_ahead_has_the_bits_of_what_is_fed(
    kind: str, micro_batches: int, perceptron: Compiled
) -> None:
    """Floats go there without a copy, but of steps of micro-batches; integers are checked."""
    artifact = perceptron(f"host-{kind}", SGD, micro_batches=micro_batches)
    made = [*batches(4)]
    with artifact.trainer() as trainer:
        fed = [trainer.step(x, y, lr=0.1) for x, y in made]
    with artifact.trainer() as trainer:
        engine = trainer._engine
        assert isinstance(engine, NativeEngine)
        (item,) = artifact.manifest.inputs
        ahead = [*trainer.train(made, lr=0.1)]
        in_memory = engine._tensors[next(i for i in engine._tensors if i.spec.name == item.name)]
        last = 0 if micro_batches == 1 else -1
        np.testing.assert_array_equal(in_memory, np.asarray(made[last][0]).reshape(in_memory.shape))
        made[1] = (made[1][0], np.full_like(made[1][1], 77))
        with pytest.raises(DataError):
            list(trainer.train(made, lr=0.1))
    assert ahead == fed


@pytest.mark.parametrize("kind", KINDS)
def test_a_checkpoint_that_is_loaded_at_once(
    kind: str, perceptron: Compiled, tmp_path: Path
) -> None:
    """Before anything else is asked of a device, which may still fill the state."""
    artifact = perceptron(f"host-{kind}", ADAMW)
    files = [tmp_path / f"{n}.ckpt" for n in range(2)]
    with artifact.trainer() as trainer:
        for x, y in batches(2):
            trainer.step(x, y, lr=0.1)
        trainer.save_checkpoint(files[0])
    for _ in range(5):
        with artifact.trainer() as trainer:
            trainer.load_checkpoint(files[0])
            trainer.save_checkpoint(files[1])
        assert files[1].read_bytes() == files[0].read_bytes()
