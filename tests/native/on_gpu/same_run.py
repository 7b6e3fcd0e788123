"""A run on a GPU: that of the CPU, and the same to the bit however batches come to it."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from odtc.artifact import Artifact
from odtc.runtime_rpc.engines.native import NativeEngine
from odtc.runtime_rpc.trainer import Trainer
from tests.native.parity import Batch, bits, evaluations, kept

# Kinds of devices that the native runtime has.
KINDS = ("opencl", "vulkan")
# By which losses and outputs differ from the CPU's, which adds up in another order.
_RTOL, _ATOL = 2e-3, 2e-4


def assert_close(found: float | np.ndarray, wanted: float | np.ndarray, of: object = "") -> None:
    """A loss or an output is the CPU's, but for rounding."""
    np.testing.assert_allclose(found, wanted, rtol=_RTOL, atol=_ATOL, err_msg=str(of))


def assert_same_run(
    compiled: Callable[[str], Artifact],
    kind: str,
    folder: Path,
    data: Sequence[Batch],
    lr: float,
    before_step: Callable[[Trainer, int], None] | None = None,
) -> None:
    """Takes steps on the CPU and on a GPU; there also with batches that are sent ahead.

    Args:
        compiled: compiles the step for a target.
        kind: of the GPU.
        folder: of the test.
        data: a batch for each step.
        lr: the learning rate.
        before_step: called with either trainer and the number of the step.
    """
    artifact = compiled(f"host-{kind}")
    with compiled("host-cpu").trainer() as on_cpu, artifact.trainer() as trainer:
        assert isinstance(trainer._engine, NativeEngine)
        for number, (x, y) in enumerate(data):
            if before_step:
                before_step(trainer, number)
            assert_close(trainer.step(x, y, lr=lr), on_cpu.step(x, y, lr=lr), number)
        wanted = evaluations(on_cpu, data[-1][0])
        found = evaluations(trainer, data[-1][0])
        for key, value in wanted.items():
            assert_close(found[key], value, key)
        files = [folder / name for name in ("first.ckpt", "again.ckpt")]
        trainer.save_checkpoint(files[0])
        one_by_one = [bits(trainer.step(x, y, lr=lr)) for x, y in data]
        left = kept(trainer)
    with artifact.trainer() as trainer:
        trainer.load_checkpoint(files[0])
        trainer.save_checkpoint(files[1])
        assert files[1].read_bytes() == files[0].read_bytes()
        assert [*map(bits, trainer.train(data, lr=lr))] == one_by_one
        assert kept(trainer) == left
