"""The same steps by TVM's virtual machine and by the native runtime: to the bit."""

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.virtual_machine import VirtualMachineHere
from odtc.artifact import Artifact
from odtc.core.artifact.manifest import Manifest
from odtc.core.specs import Role
from odtc.runtime_rpc.engines.native import NativeEngine
from odtc.runtime_rpc.engines.virtual_machine import VirtualMachine
from odtc.runtime_rpc.native.binding import NativeTrainer
from odtc.runtime_rpc.trainer import Trainer

# An input, or inputs by name, and the labels.
Batch = tuple[Any, Any]
THREADS = (1, 2, 4)
# Kernels that have workspaces for the most threads that are compared.
TARGET = "host-cpu{threads=4}"
KEPT = (Role.PARAMETER, Role.FROZEN, Role.STATISTIC, Role.STATE, Role.AVERAGE)
# An output, and whether by the averages.
Evaluated = Mapping[tuple[str, bool], np.ndarray]


def unpacked(artifact: Artifact, folder: Path) -> Path:
    """The members of an artifact in a new folder: a library runs kernels for one runtime."""
    folder.mkdir()
    for name in artifact._bundle.members:
        (folder / name).write_bytes((artifact._bundle.root / name).read_bytes())
    return folder


def tvm_trainer(artifact: Artifact, **options: Any) -> Trainer:
    """A trainer whose steps TVM takes."""
    return artifact.trainer(VirtualMachineHere(), **options)


def native_trainer(artifact: Artifact, folder: Path, threads: int = 1) -> NativeTrainer:
    return NativeTrainer(unpacked(artifact, folder), threads, folder)


def feed(native: NativeTrainer, manifest: Manifest, x: Any, y: Any = None) -> None:
    """Writes a batch to the memory of a step."""
    for role, given in ((Role.INPUT, x), (Role.LABEL, y)):
        specs = [item.spec for item in manifest.fed(role)]
        arrays = given if isinstance(given, Mapping) else {spec.name: given for spec in specs}
        for spec in specs if given is not None else ():
            native.tensors[role, spec.name][...] = np.asarray(arrays[spec.name])


def fed_to(native: NativeTrainer) -> list[bytes]:
    """Returns the bytes of the inputs and labels."""
    roles = (Role.INPUT, Role.LABEL)
    return [each.tobytes() for (role, _), each in native.tensors.items() if role in roles]


def bits(value: float) -> str:
    return struct.pack("<d", value).hex()


def assert_same_tensors(native: NativeTrainer, trainer: Trainer) -> None:
    """Weights, statistics, state and averages have the same bits."""
    for item in trainer._manifest.of_role(*KEPT):
        wanted = trainer._engine.read([item])[item]
        found = native.tensors[item.role.value, item.spec.name]
        assert found.dtype == wanted.dtype
        assert found.shape == wanted.shape
        assert found.tobytes() == wanted.tobytes(), item.spec.name


def assert_same_trainers(
    usual: Trainer, trainer: Trainer, states: Evaluated, found: Evaluated
) -> None:
    """The engine of the usual trainer is native, and gives the same evaluations and tensors."""
    assert isinstance(usual._engine, NativeEngine)
    assert isinstance(trainer._engine, VirtualMachine)
    for key, wanted in states.items():
        assert found[key].shape == wanted.shape
        assert found[key].tobytes() == wanted.tobytes(), key
    for (item, wanted), also in zip(kept(trainer), kept(usual), strict=True):
        assert also == (item, wanted), item


def kept(trainer: Trainer) -> list[tuple[str, bytes]]:
    """The tensors that a checkpoint may hold."""
    items = trainer._manifest.of_role(*KEPT)
    found = trainer._engine.read(items)
    return [(item.spec.name, found[item].tobytes()) for item in items]


def assert_same_run(
    artifact: Artifact,
    folder: Path,
    data: Sequence[Batch],
    lr: float,
    threads: Iterable[int] = THREADS,
    before_step: Callable[[Any, int], None] | None = None,
) -> None:
    """Takes steps by both, and compares all results.

    Args:
        artifact: compiled for `TARGET`.
        folder: of the test.
        data: a batch for each step.
        lr: the learning rate.
        threads: numbers of them that the native runtime is compared with.
        before_step: called with either trainer and the number of the step.
    """
    trainer = tvm_trainer(artifact, threads=1, storage=folder)
    usual = artifact.trainer(threads=2, storage=folder)
    losses = []
    for number, (x, y) in enumerate(data):
        if before_step:
            before_step(trainer, number)
            before_step(usual, number)
        losses.append(trainer.step(x, y, lr=lr))
        assert bits(usual.step(x, y, lr=lr)) == bits(losses[-1])
    states = evaluations(trainer, data[-1][0])
    assert_same_trainers(usual, trainer, states, evaluations(usual, data[-1][0]))
    for count in threads:
        with native_trainer(artifact, folder / f"by {count} threads", count) as native:
            for number, (x, y) in enumerate(data):
                if before_step:
                    before_step(native, number)
                feed(native, artifact.manifest, x, y)
                fed = fed_to(native)
                assert bits(native.step(lr)) == bits(losses[number]), (count, number)
                # A step may be taken again with what was written once.
                assert fed_to(native) == fed
            assert native.steps == trainer.steps
            assert_same_tensors(native, trainer)
            for (output, ema), wanted in states.items():
                found = native.evaluate(output, ema=ema)
                assert found.shape == wanted.shape
                assert found.tobytes() == wanted.tobytes(), (count, output, ema)
            assert_same_tensors(native, trainer)


def evaluations(trainer: Trainer, x: Any) -> dict[tuple[str, bool], np.ndarray]:
    """All outputs for a batch, where there are averages by these, too."""
    manifest = trainer._manifest
    averages = (False, True) if manifest.of_role(Role.AVERAGE) else (False,)
    return {
        (each.output.name, ema): trainer.evaluate(x, each.output.name, ema=ema)
        for each in manifest.evaluations
        for ema in averages
        if each.place is not None or manifest.micro_batches == 1
    }
