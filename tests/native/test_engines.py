"""A trainer on either engine: which one it is, and that nobody can tell by what it computes."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest

import odtc
from benchmarks.virtual_machine import VirtualMachineHere
from odtc.core.errors import (
    ArtifactError,
    BuildError,
    MissingPackageError,
    NumericError,
    OdtcError,
    UsageError,
)
from odtc.runtime_rpc.engines import choose
from odtc.runtime_rpc.engines.choose import why_tvm
from odtc.runtime_rpc.engines.native import NativeEngine
from odtc.runtime_rpc.engines.virtual_machine import VirtualMachine
from odtc.runtime_rpc.sessions.local import LocalSession
from odtc.runtime_rpc.trainer import Trainer
from tests.native.parity import TARGET, bits, kept, tvm_trainer
from tests.numeric.mlp import CLASSES, INPUTS, batches, mlp_artifact
from tests.numeric.plans.test_memory_budget import tower

LR = 0.05
UPDATE = odtc.Update(odtc.AdamW(), accumulate=2, ema=0.9)


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> odtc.Artifact:
    return mlp_artifact(tmp_path_factory.mktemp("mlp"), UPDATE, target=TARGET)


@pytest.fixture(scope="module")
def cut(tmp_path_factory: pytest.TempPathFactory) -> odtc.Artifact:
    """The same as two micro-batches."""
    folder = tmp_path_factory.mktemp("cut")
    return mlp_artifact(folder, UPDATE, target=TARGET, micro_batches=2)


def both(artifact: odtc.Artifact) -> tuple[Trainer, Trainer]:
    """By the native runtime, and by TVM."""
    return artifact.trainer(threads=2), tvm_trainer(artifact, threads=2)


def losses(trainer: Trainer, data) -> list[str]:
    return [bits(trainer.step(x, y, lr=LR)) for x, y in data]


@pytest.mark.parametrize(
    ("session", "engine"),
    [
        (LocalSession(), NativeEngine),
        (VirtualMachineHere(), VirtualMachine),
        (LocalSession(kind="opencl"), NativeEngine),
    ],
)
def test_one_table_chooses(artifact, session, engine) -> None:
    assert bool(why_tvm(artifact._bundle, session)) == (engine is VirtualMachine)
    if session.kind == LocalSession().kind:
        assert type(artifact.trainer(session)._engine) is engine


def test_a_step_that_is_no_straight_line_is_tvms(artifact) -> None:
    files = {k: v for k, v in artifact.manifest.files.items() if k != "program.bin"}
    bundle = replace(artifact._bundle, manifest=replace(artifact.manifest, files=files))
    assert why_tvm(bundle, LocalSession()) == "the artifact has no program"


def test_a_step_has_the_number_that_the_trainer_counts(artifact) -> None:
    """As where an interruption came between the end of a step in C and its count."""
    trainer, (first, second) = artifact.trainer(threads=1), batches(2)
    losses(trainer, [first])
    trainer._engine._native.steps = 7
    losses(trainer, [second])
    assert trainer._engine._native.steps == 2


def test_a_program_of_another_step_is_refused(artifact) -> None:
    first, *others = artifact.manifest.arguments
    wider = replace(first, spec=replace(first.spec, shape=(8, INPUTS + 1)))
    plans = (replace(artifact.manifest.plans[0], arena_bytes=64),)
    for change in ({"arguments": (wider, *others)}, {"plans": plans}):
        bundle = replace(artifact._bundle, manifest=replace(artifact.manifest, **change))
        with pytest.raises(ArtifactError, match="are not of the same step"):
            Trainer(bundle, LocalSession())


def test_tvm_takes_steps_where_the_runtime_cannot_be_built(
    artifact, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails() -> None:
        raise BuildError("no C compiler was found for the native runtime")

    monkeypatch.setattr(choose, "loaded_runtime", fails)
    with pytest.warns(UserWarning, match="TVM takes these steps, .* no C compiler was found"):
        trainer = artifact.trainer(threads=1)
    assert type(trainer._engine) is VirtualMachine
    assert losses(trainer, batches(2)) == losses(tvm_trainer(artifact, threads=1), batches(2))
    monkeypatch.delitem(sys.modules, "odtc.runtime_rpc.engines.virtual_machine")
    monkeypatch.setitem(sys.modules, "tvm", None)
    with pytest.raises(MissingPackageError) as caught:
        artifact.trainer(threads=1)
    assert str(caught.value) == (
        "TVM would take these steps, but is not installed: the native runtime cannot be built or "
        "loaded here: no C compiler was found for the native runtime\n  where: this machine\n"
        "  hint: run `pip install 'odtc[compile]'`; if only a C compiler is missing, installing "
        "one is enough"
    )


def test_both_at_once_in_one_process(artifact) -> None:
    """Kernels of an artifact's library run their tasks in one pool: TVM has a copy of it."""
    data = batches(6)
    made = [artifact.trainer(threads=2), tvm_trainer(artifact, threads=2)]
    made += [tvm_trainer(artifact, threads=1), artifact.trainer(threads=1)]
    found = [[bits(each.step(x, y, lr=LR)) for each in made] for x, y in data]
    assert all(len({*step}) == 1 for step in found)
    assert len({tuple(kept(each)) for each in made}) == 1


@pytest.mark.parametrize("ema", [False, True])
def test_any_number_of_samples_is_evaluated(artifact, cut, ema: bool) -> None:
    x = np.random.default_rng(1).standard_normal((17, INPUTS)).astype(np.float32)
    for each in (artifact, cut):
        native, tvm = both(each)
        assert losses(native, batches(3)) == losses(tvm, batches(3))
        for count in range(1, 18):
            found, wanted = (it.evaluate(x[:count], ema=ema) for it in (native, tvm))
            assert found.shape == (count, CLASSES)
            assert found.tobytes() == wanted.tobytes(), count
        # What it is fed for an evaluation is no part of a step.
        assert losses(native, batches(5)[3:]) == losses(tvm, batches(5)[3:])


def test_an_output_whose_samples_are_not_known(tmp_path: Path) -> None:
    text = """<ir_version: 9, opset_import: ["" : 17]> g (float[N, 4] x) => (float[N, 3] y)
    { a = MatMul (x, w) u = ReduceMean <axes = [0]> (a) y = Sub (a, u) }"""
    model = onnx.parser.parse_model(text)
    value = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(value, "w"))
    onnx.save(model, path := tmp_path / "m.onnx")
    made = odtc.compile(path, TARGET, batch=4, loss="mse")
    assert made.manifest.evaluations[0].place is None
    x = np.random.default_rng(1).standard_normal((4, 4)).astype(np.float32)
    found, wanted = (each.evaluate(x) for each in both(made))
    assert found.shape == wanted.shape == (4, 3)
    assert found.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("stop", [2, 3])
def test_checkpoints_are_of_both(artifact, cut, stop: int, tmp_path: Path) -> None:
    """After three steps sums of gradients are kept, too."""
    data = batches(6)
    for each in (artifact, cut):
        native, tvm = both(each)
        for name, trainer in (("native", native), ("tvm", tvm)):
            losses(trainer, data[:stop])
            trainer.save_checkpoint(tmp_path / name)
        assert (tmp_path / "native").read_bytes() == (tmp_path / "tvm").read_bytes()
        wanted = losses(tvm, data[stop:])
        other, _ = both(each)
        losses(other, data[:1])
        other.load_checkpoint(tmp_path / "tvm")
        assert other.steps == stop
        assert losses(other, data[stop:]) == wanted
        assert kept(other) == kept(tvm)


def test_weights_that_are_given(artifact) -> None:
    native, tvm = both(artifact)
    value = np.full((CLASSES, 12), 0.25, np.float64)
    for each in (native, tvm):
        losses(each, batches(1))
        each.set_parameters({"fc2.weight": value})
    assert losses(native, batches(2)) == losses(tvm, batches(2))
    found = native.parameters()
    found["fc2.weight"][...] = np.nan
    assert np.isfinite(native.parameters()["fc2.weight"]).all()


@pytest.fixture(scope="module")
def of_plans(tmp_path_factory: pytest.TempPathFactory) -> odtc.Artifact:
    onnx.save(tower(layers=3), path := tmp_path_factory.mktemp("tower") / "tower.onnx")
    return odtc.compile(path, TARGET, batch=4, memory_budget="auto")


def tower_batch(artifact: odtc.Artifact) -> tuple[np.ndarray, np.ndarray]:
    return np.ones(artifact.manifest.inputs[0].shape, np.float32), np.arange(4) % 8


def test_memory_is_followed_alike(of_plans) -> None:
    plans = of_plans.manifest.plans
    assert len(plans) > 2
    large, small = plans[0].arena_bytes, plans[-1].arena_bytes
    left = [10 * large, 0, small, *[10 * large] * 6, plans[1].arena_bytes - 1, 0]
    x, y = tower_batch(of_plans)
    seen = []
    for trainer in both(of_plans):
        rooms = iter([0, *left])
        # What is left beside the arena, if all in `left` is all that there is.
        held = [0]
        trainer.follow_memory(1, lambda rooms=rooms, held=held: next(rooms) - held[0])
        ran = []
        for _ in left:
            loss = bits(trainer.step(x, y, lr=LR))
            held[0] = trainer.plan.arena_bytes
            ran.append((loss, trainer.plan))
        seen.append(ran)
    assert seen[0] == seen[1]
    assert len({plan.function for _, plan in seen[0]}) > 2


LIMITED = """
import resource, sys
import numpy as np
import odtc
artifact = odtc.load(sys.argv[1])
trainer = artifact.trainer(threads=1)
spare = int(sys.argv[2])
size = next(line for line in open("/proc/self/status") if line.startswith("VmSize"))
limit = (int(size.split()[1]) << 10) + spare
x = np.ones(artifact.manifest.inputs[0].shape, np.float32)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
try:
    trainer.step(x, np.arange(4) % 8, lr=0.05)
    print(trainer.plan.function)
except odtc.OdtcError as error:
    print(error)
"""


def limited(artifact: odtc.Artifact, folder: Path, spare: int) -> str:
    """The error of a step that may take so many bytes beyond those of the process."""
    artifact.save(path := folder / "m.odtc")
    command = [sys.executable, "-c", LIMITED, str(path), str(spare)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    return done.stdout


def test_a_smaller_plan_where_there_is_no_memory(of_plans, tmp_path: Path) -> None:
    plans = of_plans.manifest.plans
    spare = (plans[-2].arena_bytes + plans[-1].arena_bytes) // 2
    assert limited(of_plans, tmp_path, spare).strip() == plans[-1].function


def test_no_memory_for_any_plan(of_plans, tmp_path: Path) -> None:
    plans = of_plans.manifest.plans
    assert limited(of_plans, tmp_path, plans[-1].arena_bytes // 2).startswith(
        f"there is no memory for a step's arena of {plans[-1].arena_bytes:,} bytes, the smallest "
        f"of {len(plans)} plans: Cannot allocate memory\n  where: this machine\n"
    )


def said(work: Callable[[], object]) -> str:
    with pytest.raises(OdtcError) as caught:
        work()
    return f"{type(caught.value).__name__}: {caught.value}"


@pytest.mark.parametrize("micro_batches", [1, 2])
def test_what_is_not_finite_is_said_alike(artifact, cut, micro_batches: int) -> None:
    made = artifact if micro_batches == 1 else cut
    (x, y), *_ = batches(1)
    wrong = x.copy()
    wrong[6, 2] = np.inf
    for fed, rate in ((wrong, LR), (x, 3e38)):
        native, tvm = both(made)

        def diverge(trainer: Trainer, fed=fed, rate=rate) -> None:
            for _ in range(9):
                trainer.step(fed, y, lr=rate)

        found = said(lambda trainer=native: diverge(trainer))
        assert found == said(lambda trainer=tvm: diverge(trainer))
        assert found.startswith(NumericError.__name__)
        # The step was taken, and counted.
        assert native.steps == tvm.steps > 0


def test_threads_and_cores_of_a_trainer(artifact) -> None:
    cores = sorted(os.sched_getaffinity(0))
    native, tvm = artifact.trainer(), tvm_trainer(artifact)
    for threads, chosen in ((1, None), (2, None), (None, "all"), (1, str(cores[-1])), (None, None)):
        for each in (native, tvm):
            each.use_threads(threads, chosen)
        assert losses(native, batches(2)) == losses(tvm, batches(2))
        assert os.sched_getaffinity(0) == set(cores)
    with pytest.raises(UsageError, match="the device has no core 4096"):
        native.use_threads(cores="4096")
    assert losses(native, batches(1)) == losses(tvm, batches(1))


def test_threads_go_with_their_trainer(artifact) -> None:
    def tasks() -> int:
        return len(os.listdir("/proc/self/task"))

    before = tasks()
    trainer = artifact.trainer(threads=2)
    losses(trainer, batches(1))
    added = min(2, len(os.sched_getaffinity(0))) - 1
    assert tasks() == before + added
    trainer.use_threads(1)
    assert tasks() == before
    trainer.use_threads(2)
    del trainer
    assert tasks() == before


def test_a_thread_of_its_own_takes_steps(artifact) -> None:
    native, tvm = both(artifact)
    data, found = batches(4), []
    losses(native, data[:2])
    thread = threading.Thread(target=lambda: found.extend(losses(native, data[2:])))
    thread.start()
    thread.join()
    losses(tvm, data[:2])
    assert found == losses(tvm, data[2:])


def test_ctrl_c_within_a_step_ends_it_after_that(of_plans) -> None:
    """Python raises it once the step is done, and counted."""
    x, y = tower_batch(of_plans)
    native, tvm = both(of_plans)
    own = os.getpid()

    def press() -> None:
        # On a machine that is busy, the first step may begin late.
        while not native.steps:
            time.sleep(0.001)
        os.kill(own, signal.SIGINT)

    def until_interrupted() -> None:
        while True:
            native.step(x, y, lr=LR)

    pressing = threading.Thread(target=press)
    pressing.start()
    with pytest.raises(KeyboardInterrupt):
        until_interrupted()
    pressing.join()
    assert native.steps > 0
    for _ in range(native.steps):
        tvm.step(x, y, lr=LR)
    assert kept(native) == kept(tvm)
