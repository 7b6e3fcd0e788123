"""The same run on a GPU by TVM's virtual machine and by the native runtime: to the bit."""

from collections.abc import Callable, Sequence
from pathlib import Path

from odtc.artifact import Artifact
from odtc.runtime_rpc.trainer import Trainer
from tests.native.parity import Batch, assert_same_trainers, bits, evaluations, tvm_trainer

# Kinds of devices that the native runtime has.
KINDS = ("opencl", "vulkan")


def assert_same_run(
    artifact: Artifact,
    folder: Path,
    data: Sequence[Batch],
    lr: float,
    before_step: Callable[[Trainer, int], None] | None = None,
) -> None:
    """Takes steps one by one, then with batches that are sent ahead, and compares all results.

    Args:
        artifact: compiled for a GPU of this machine.
        folder: of the test.
        data: a batch for each step.
        lr: the learning rate.
        before_step: called with either trainer and the number of the step.
    """
    with tvm_trainer(artifact) as trainer, artifact.trainer() as usual:
        for number, (x, y) in enumerate(data):
            if before_step:
                before_step(trainer, number)
                before_step(usual, number)
            wanted = bits(trainer.step(x, y, lr=lr))
            assert bits(usual.step(x, y, lr=lr)) == wanted, number
        states, found = (evaluations(each, data[-1][0]) for each in (trainer, usual))
        assert_same_trainers(usual, trainer, states, found)
        losses = [[*map(bits, each.train(data, lr=lr))] for each in (trainer, usual)]
        assert losses[1] == losses[0]
        files = [folder / name for name in ("tvm.ckpt", "native.ckpt")]
        for each, path in zip((trainer, usual), files, strict=True):
            each.save_checkpoint(path)
        assert files[1].read_bytes() == files[0].read_bytes()
        # Each goes on from the other's.
        for each, path in zip((trainer, usual), reversed(files), strict=True):
            each.step(*data[0], lr=lr)
            each.load_checkpoint(path)
        losses = [[*map(bits, each.train(data, lr=lr))] for each in (trainer, usual)]
        assert losses[1] == losses[0]
