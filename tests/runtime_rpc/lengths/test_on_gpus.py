"""Steps of several lengths on GPUs, here and by odtc-device: losses and weights are PyTorch's."""

from pathlib import Path

import numpy as np
import pytest
import torch

import odtc
from odtc.core.specs import FED_ROLES
from odtc.runtime_rpc.engines.native import NativeEngine
from odtc.runtime_rpc.native.binding import NativeTrainer
from odtc.runtime_rpc.native.interface import loaded_gpu_runtime
from odtc.runtime_rpc.native.on_gpu import OnGpu
from tests.fast import fast_if
from tests.native.on_gpu.same_run import KINDS, assert_close
from tests.native.parity import unpacked
from tests.runtime_rpc.lengths.languages import (
    BATCH,
    LOSS,
    WORDS,
    Batch,
    loss_of,
    ragged,
    save,
    words,
)
from tests.runtime_rpc.own_server import NATIVE, serving
from tests.runtime_rpc.trainer.test_resume import everything

MODULE = words()
LENGTHS = (4, 12)
# The first ones are short: what they need is not enough for those that follow.
ROWS = ((3, 4), (2, 2), (12, 9), (7, 2), (1, 2), (8, 6), (12, 12))
TAKEN = (4, 4, 12, 12, 4, 12, 12)
LR = 0.1


@pytest.fixture(scope="module", params=fast_if("vulkan".__eq__, KINDS))
def artifact(request, tmp_path_factory: pytest.TempPathFactory) -> odtc.Artifact:
    path = save(MODULE, tmp_path_factory.mktemp("lengths") / "decoder.onnx")
    options = {"batch": BATCH, "loss": LOSS, "optimizer": odtc.SGD(momentum=0.9)}
    return odtc.compile(path, f"host-{request.param}", lengths=LENGTHS, **options)


def batches() -> list[Batch]:
    return [ragged(MODULE, rows, LENGTHS[-1], seed) for seed, rows in enumerate(ROWS)]


def test_losses_and_weights_are_those_of_rows_alone(
    artifact: odtc.Artifact, tmp_path: Path
) -> None:
    module = words()
    update = torch.optim.SGD(module.parameters(), lr=LR, momentum=0.9)
    with artifact.trainer() as alone, artifact.trainer() as ahead:
        assert isinstance(alone._engine, NativeEngine)
        sent, lengths = [], []
        for loss in ahead.train(batches(), LR):
            sent.append(loss)
            lengths.append((ahead.length, ahead.plan))
        for number, (batch, rows) in enumerate(zip(batches(), ROWS, strict=True)):
            update.zero_grad()
            expected = loss_of(module, batch, rows)
            expected.backward()
            update.step()
            loss = alone.step(*batch, lr=LR)
            assert_close(loss, expected.item())
            # One arena for steps of all lengths: what is ready to run stays so.
            assert alone._engine._native.held_bytes == artifact.manifest.plans[0].arena_bytes
            assert loss == sent[number]
        plans = {length: each.plans[0] for length, each in artifact.manifest.lengths.items()}
        assert lengths == [(length, plans[length]) for length in TAKEN]
        assert everything(ahead, tmp_path / "ahead") == everything(alone, tmp_path / "alone")
        weights = alone.parameters()
        for width in (1, 4, 7, 12):
            inputs, _ = ragged(MODULE, (width,) * 3, width, width)
            found = alone.evaluate(inputs)
            assert found.shape == (3, width, WORDS)
            with torch.no_grad():
                assert_close(found, module(*map(torch.from_numpy, inputs.values())).numpy())
    for name, value in module.state_dict().items():
        assert_close(weights[name], value.numpy(), name)


def test_a_checkpoint_and_evaluations_between_steps_sent_ahead(
    artifact: odtc.Artifact, tmp_path: Path
) -> None:
    inputs, _ = ragged(MODULE, (7, 7), 7, 0)
    with artifact.trainer() as whole:
        expected = [whole.step(*each, lr=LR) for each in batches()]
        outputs = whole.evaluate(inputs)
    with artifact.trainer() as first:
        found = []
        for loss in first.train(batches()[:4], LR):
            found.append(loss)
            first.evaluate(inputs if len(found) % 2 else {k: v[:, :3] for k, v in inputs.items()})
        first.save_checkpoint(tmp_path / "run")
    with artifact.trainer() as second:
        second.load_checkpoint(tmp_path / "run")
        found += second.train(batches()[4:], LR)
        np.testing.assert_array_equal(second.evaluate(inputs), outputs)
    assert found == expected


def test_a_profile_is_of_one_length(artifact: odtc.Artifact) -> None:
    calls = {}
    with artifact.trainer() as trainer:
        list(trainer.train(batches(), LR))
        for length in LENGTHS:
            with (
                pytest.warns(UserWarning, match=f"steps at a length of {length}"),
                trainer.profile(length=length) as part,
            ):
                list(trainer.train(batches(), LR))
            profile = part.profile
            assert (profile.length, len(profile.steps)) == (length, TAKEN.count(length))
            calls[length] = [each.kernel for each in profile.operators]
            assert all(len(run.calls) == len(calls[length]) for (run,) in profile.steps)
            launched = trainer.launches()
            assert {*calls[length]} <= launched.keys()
    assert calls[4] != calls[12]


def test_odtc_device_has_the_bits_of_this_process(artifact: odtc.Artifact, tmp_path: Path) -> None:
    inputs, _ = ragged(MODULE, (7, 7, 7), 7, 0)
    with (
        serving(tmp_path / "sessions", server=NATIVE) as url,
        artifact.trainer() as here,
        artifact.trainer(url) as there,
    ):
        expected, lengths, found = [here.step(*each, lr=LR) for each in batches()], [], []
        for loss in there.train(batches(), LR, 5):
            found.append(loss)
            lengths.append(there.length)
        assert found == expected
        assert lengths == [*TAKEN]
        np.testing.assert_array_equal(here.evaluate(inputs), there.evaluate(inputs))
        assert everything(there, tmp_path / "there") == everything(here, tmp_path / "here")


def test_what_was_sent_ahead_is_of_its_length_alone(
    artifact: odtc.Artifact, tmp_path: Path
) -> None:
    """Another length than that of what was sent takes what is in memory."""
    short, long = ragged(MODULE, (3, 4), 4, 1), ragged(MODULE, (12, 9), 12, 2)
    members = unpacked(artifact, tmp_path / "members")

    def losses(*, is_sent: bool) -> list[float]:
        with NativeTrainer(members, 1, library=loaded_gpu_runtime()) as native:

            def feed(length: int, batch: Batch) -> None:
                native.set_length(length)
                for number, item in enumerate(artifact.manifest.lengths[length].arguments):
                    if item.role in FED_ROLES:
                        value = batch[0].get(item.spec.name, batch[1])
                        native.part(number, item.spec.shape, item.spec.dtype)[...] = value

            on_gpu = OnGpu(native, lambda: None)
            feed(12, long)
            found = [native.step(LR)]
            feed(4, short)
            if is_sent:
                on_gpu.send_next()
            feed(12, long)
            return [*found, native.step(LR)]

    assert losses(is_sent=True) == losses(is_sent=False)


def test_batches_are_joined_while_a_step_is_taken(artifact: odtc.Artifact) -> None:
    """A GPU asks for the next batch meanwhile."""
    parts = [ragged(MODULE, (width,) * 3, width, width) for width in (3, 9, 4, 12)]
    with artifact.trainer() as trainer:
        trainer.fit(parts, lr=LR, validation=parts)
        assert trainer.steps == 6
