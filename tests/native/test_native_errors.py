"""Errors of the native runtime: each code and its text, and that nothing is lost."""

import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from safetensors.numpy import load_file, save_file

import odtc
from benchmarks.models.digits import digits_model
from odtc.artifact import Artifact
from odtc.backends.cpus import _TOLD_BY_ARM, _TOLD_BY_X86, lacking_features
from odtc.backends.targets import parse_target
from odtc.core.ir.marked_loss import loss_inside
from odtc.core.specs import Role
from odtc.runtime_rpc.native.binding import NativeTrainer
from odtc.runtime_rpc.native.build import FOLDER
from odtc.runtime_rpc.native.interface import Code, NativeError
from tests.native.parity import TARGET, bits, feed, native_trainer, unpacked
from tests.needs import needs_x86
from tests.numeric.forms.test_indices import FED, ROWS, WRONG, Y, compiled, ids_with
from tests.numeric.mlp import batches, mlp_artifact
from tests.numeric.plans.test_memory_budget import tower

UPDATE = odtc.Update(odtc.SGD(momentum=0.9), ema=0.9)


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    return mlp_artifact(tmp_path_factory.mktemp("mlp"), UPDATE, target=TARGET)


@pytest.fixture(scope="module")
def members(artifact: Artifact, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked(artifact, tmp_path_factory.mktemp("members") / "artifact")


def without(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def cut(name: str, size: int) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:size])


def flipped(name: str, at: int) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        data = bytearray((folder / name).read_bytes())
        data[at] ^= 1
        (folder / name).write_bytes(data)

    return edit


def renamed(folder: Path) -> None:
    path = folder / "parameters.safetensors"
    path.write_bytes(path.read_bytes().replace(b"fc1.bias", b"fc3.bias"))


def reshaped(folder: Path) -> None:
    path = folder / "parameters.safetensors"
    path.write_bytes(path.read_bytes().replace(b"[12,8]", b"[8,12]"))


def halved(folder: Path) -> None:
    path = folder / "parameters.safetensors"
    save_file({name: each.astype(np.float16) for name, each in load_file(path).items()}, path)


def piped(folder: Path) -> None:
    (folder / "parameters.safetensors").unlink()
    os.mkfifo(folder / "parameters.safetensors")


FILES: dict[str, tuple[Callable[[Path], None], Code, str]] = {
    "no program": (without("program.bin"), Code.NO_FILE, "program.bin cannot be read: No such"),
    "no weights": (without("parameters.safetensors"), Code.NO_FILE, "cannot be read: No such"),
    "no library": (without("step.so"), Code.NO_FILE, "step.so cannot be read: No such file"),
    "an empty program": (cut("program.bin", 0), Code.DAMAGED, "program.bin is empty"),
    "a short program": (cut("program.bin", 999), Code.DAMAGED, "the program has 999 bytes of"),
    "another file": (flipped("program.bin", 0), Code.DAMAGED, "the file is not a program of odtc"),
    "another version": (
        flipped("program.bin", 9),
        Code.UNSUPPORTED,
        "the program has version 258; this runtime reads versions 2 to 4",
    ),
    # Nothing in the identity is wrong in itself.
    "another program": (flipped("program.bin", 30), Code.MISFIT, "are not of one artifact"),
    "a short library": (cut("step.so", 5000), Code.DAMAGED, "the library ends too early"),
    "no library of 64 bits": (flipped("step.so", 4), Code.DAMAGED, "is not a 64-bit one"),
    "short weights": (cut("parameters.safetensors", 400), Code.DAMAGED, "does not fit its place"),
    "other weights": (renamed, Code.MISFIT, "the file of weights has no fc1.bias"),
    "weights of another shape": (
        reshaped,
        Code.MISFIT,
        r"fc1.weight is float32 \[8, 12\] in the file; the step takes float32 \[12, 8\]",
    ),
    "weights of another type": (
        halved,
        Code.MISFIT,
        r"is float16 \[.*\] in the file; the step takes float32 \[",
    ),
    # To open a pipe waits for a writer.
    "a pipe for weights": (piped, Code.DAMAGED, "safetensors is a pipe or a device, not a file"),
    "a folder for a program": (
        lambda folder: (folder / "program.bin").unlink() or (folder / "program.bin").mkdir(),
        Code.DAMAGED,
        "program.bin is a folder",
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_files(name: str, members: Path, tmp_path: Path) -> None:
    edit, code, text = FILES[name]
    shutil.copytree(members, folder := tmp_path / "artifact")
    edit(folder)
    with pytest.raises(NativeError, match=text) as caught:
        NativeTrainer(folder, 1)
    assert caught.value.code is code
    assert str(folder) in str(caught.value)


def test_labels_and_rates_are_checked_before_anything_changes(
    artifact: Artifact, tmp_path: Path
) -> None:
    (x, y), *_ = batches(1)
    with native_trainer(artifact, tmp_path / "a") as native:
        before = {key: tensor.copy() for key, tensor in native.tensors.items()}
        feed(native, artifact.manifest, x, np.where(np.arange(8) == 3, 5, y))
        for rate, said in (
            (0.1, r"element 3 of label is 5, outside \[0, 4\]"),
            (-0.1, "the learning rate -0.1 is not a number of 0 or more"),
            (float("nan"), "the learning rate nan is not a number of 0 or more"),
        ):
            feed(native, artifact.manifest, x, np.where(np.arange(8) == 3, 5 * (rate > 0), y))
            with pytest.raises(NativeError, match=said) as caught:
                native.step(rate)
            assert caught.value.code is Code.DATA
        assert native.steps == 0
        for (role, name), tensor in native.tensors.items():
            if role not in (Role.INPUT, Role.LABEL):
                assert np.array_equal(tensor, before[role, name]), name


def test_a_loss_that_nobody_asks_for_and_steps_below_none(
    artifact: Artifact, tmp_path: Path
) -> None:
    (x, y), *_ = batches(1)
    with native_trainer(artifact, tmp_path / "a") as native:
        feed(native, artifact.manifest, x, y)
        assert native.library.odtc_step(native.handle, 0.1, None) == Code.OK
        with pytest.raises(NativeError, match="-4 is not a number of steps"):
            native.steps = -4
        assert native.steps == 1


def test_indices_are_checked(tmp_path: Path) -> None:
    artifact = compiled(FED["gather"], tmp_path)
    with native_trainer(artifact, tmp_path / "a") as native:
        for wrong in WRONG:
            feed(native, artifact.manifest, ids_with(wrong), Y)
            said = rf"element 7 of ids is {wrong}, outside \[-{ROWS}, {ROWS - 1}\]"
            for call in (lambda: native.step(0.1), native.evaluate):
                with pytest.raises(NativeError, match=said):
                    call()
        feed(native, artifact.manifest, ids_with(-ROWS), Y)
        assert native.step(0.1) > 0


def test_what_is_asked_for_is_there(artifact: Artifact, tmp_path: Path) -> None:
    with native_trainer(artifact, tmp_path / "a") as native:
        cases = [
            (lambda: native.evaluate("z"), Code.USAGE, "the output z cannot be evaluated"),
            (lambda: native.set_budget(1), Code.BUDGET, "the step needs at least .* budget is 1"),
            (lambda: native.use_threads(5), Code.USAGE, "kernels have workspaces for 1 to 4"),
            (lambda: native.use_threads(-1), Code.USAGE, "-1 threads are asked for"),
        ]
        for call, code, text in cases:
            with pytest.raises(NativeError, match=text) as caught:
                call()
            assert caught.value.code is code
        assert native.fact("optimizer") == "sgd"
        assert native.fact("nothing") is None


def test_averages_that_are_not_kept(tmp_path: Path) -> None:
    artifact = mlp_artifact(tmp_path, odtc.SGD())
    with (
        native_trainer(artifact, tmp_path / "a") as native,
        pytest.raises(NativeError, match="the step keeps no moving averages"),
    ):
        native.evaluate(ema=True)


def test_a_loss_that_is_not_finite_names_what_was_fed(artifact: Artifact, tmp_path: Path) -> None:
    (x, y), (good, labels) = batches(2)
    x[2, 5] = np.inf
    with native_trainer(artifact, tmp_path / "a") as native:
        feed(native, artifact.manifest, good, labels)
        native.step(0.1)
        feed(native, artifact.manifest, x, y)
        said = r"1 of 64 elements of x are inf at step 2 \(loss .*, learning rate 0.1\)"
        with pytest.raises(NativeError, match=said) as caught:
            native.step(0.1)
        assert caught.value.code is Code.NOT_FINITE
        assert native.steps == 2


def test_the_loss_of_an_update_that_overflows_is_told(artifact: Artifact, tmp_path: Path) -> None:
    usual, overflows, judged = (native_trainer(artifact, tmp_path / name) for name in "abc")
    for each in (usual, overflows, judged):
        feed(each, artifact.manifest, *batches(1)[0])
    for each in (overflows, judged):
        each.tensors["state", "momentum/fc1.bias"][...] = np.inf
    wanted = usual.step(0.1)
    code, loss = overflows._step(0.1)
    assert (code, loss) == (Code.NOT_FINITE, pytest.approx(wanted, rel=1e-4))
    said = overflows.library.odtc_message(overflows.handle).decode()
    assert f"(loss {loss:.3g}, learning rate 0.1)" in said
    # The trainer in Python judges by the mark.
    assert loss_inside(judged.step_at_any_loss(0.1)) == loss


def test_a_step_that_was_cancelled_was_not_taken(artifact: Artifact, tmp_path: Path) -> None:
    data = batches(3)
    with (
        native_trainer(artifact, tmp_path / "a") as native,
        native_trainer(artifact, tmp_path / "b") as undisturbed,
    ):
        for number, (x, y) in enumerate(data):
            feed(native, artifact.manifest, x, y)
            feed(undisturbed, artifact.manifest, x, y)
            native.cancel(now=number == 1)
            with pytest.raises(NativeError, match="cancelled before it began") as caught:
                native.step(0.1)
            assert caught.value.code is Code.CANCELLED
            assert bits(native.step(0.1)) == bits(undisturbed.step(0.1))


def test_a_step_that_ends_half_way_tears_the_weights(artifact: Artifact, tmp_path: Path) -> None:
    x, y = batches(1)[0]
    with native_trainer(artifact, tmp_path / "a") as native:
        feed(native, artifact.manifest, x, y)
        over = threading.Event()

        def cancel() -> None:
            while not over.wait(1e-5):
                native.cancel(now=True)

        thread = threading.Thread(target=cancel)
        thread.start()
        codes = set()
        while Code.TORN not in codes:
            try:
                native.step(0.1)
            except NativeError as error:
                codes.add(error.code)
        over.set()
        thread.join()
        assert codes == {Code.CANCELLED, Code.TORN}
        for call in (lambda: native.step(0.1), native.evaluate):
            with pytest.raises(NativeError, match="the weights are torn"):
                call()


def test_a_library_that_another_runtime_uses(tmp_path: Path) -> None:
    """Its parallel kernels hold the address of one pool, TVM's or the native runtime's."""
    onnx.save(digits_model(), path := tmp_path / "digits.onnx")
    members = unpacked(odtc.compile(path, TARGET, batch=8), tmp_path / "artifact")
    code = (
        "import sys, tvm_ffi, tvm\n"
        "from odtc.runtime_rpc.native.binding import NativeTrainer\n"
        "held = tvm_ffi.load_module(sys.argv[1] + '/step.so')\n"
        "NativeTrainer(sys.argv[1], 1)\n"
    )
    command = [sys.executable, "-c", code, str(members)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode
    assert "another runtime of this process runs the kernels" in done.stderr, done.stderr


@needs_x86("cores of AMD's from before Zen")
def test_a_cpu_that_lacks_an_instruction(tmp_path: Path) -> None:
    target = parse_target("host-cpu{mcpu=bdver4}")
    lacking = lacking_features(target.cpu)
    assert lacking
    artifact = mlp_artifact(tmp_path, odtc.SGD(), target=target)
    with pytest.raises(NativeError, match="which this CPU lacks") as caught:
        native_trainer(artifact, tmp_path / "a")
    assert caught.value.code is Code.CPU
    assert str(caught.value).split()[3].rstrip(",") in lacking


def test_all_features_that_are_told_can_be_looked_for() -> None:
    source = (FOLDER / "cpu.c").read_text(encoding="utf-8")
    assert set(re.findall(r'\{"(\w+)", ', source)) == _TOLD_BY_ARM | _TOLD_BY_X86


def test_out_of_memory(artifact: Artifact, members: Path) -> None:
    """A clear error, where the system gives no more."""
    code = (
        "import resource, sys\n"
        "from odtc.runtime_rpc.native.binding import NativeTrainer\n"
        "from odtc.runtime_rpc.native.interface import NativeError, loaded_runtime\n"
        "loaded_runtime()\n"
        "used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 15),) * 2)\n"
        "try: NativeTrainer(sys.argv[1], 4)\n"
        "except NativeError as error: print(error.code.name, error)\n"
    )
    command = [sys.executable, "-c", code, str(members)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split()[0] in ("NO_MEMORY", "MISFIT"), done.stdout


def test_where_there_is_no_memory_for_a_plan_a_smaller_one_is_taken(tmp_path: Path) -> None:
    onnx.save(tower(layers=2, size=32), path := tmp_path / "tower.onnx")
    artifact = odtc.compile(path, batch=32, memory_budget="auto")
    first, *_, last = (plan.arena_bytes for plan in artifact.manifest.plans)
    members = unpacked(artifact, tmp_path / "artifact")
    code = (
        "import resource, sys\n"
        "from odtc.runtime_rpc.native.binding import NativeTrainer\n"
        "trainer = NativeTrainer(sys.argv[1], 1)\n"
        "trainer.tensors['input', 'x'][...] = 1\n"
        "used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        "limit = used + int(sys.argv[2])\n"
        "if limit > used: resource.setrlimit(resource.RLIMIT_AS, (limit, limit))\n"
        "print(trainer.step(0.1).hex(), trainer.arena_bytes)\n"
    )

    def run(room: int) -> tuple[str, int]:
        command = [sys.executable, "-c", code, str(members), str(room)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        loss, arena = done.stdout.split()
        return loss, int(arena)

    plenty, tight = run(0), run((first + last) // 2)
    assert plenty[1] == first
    assert last <= tight[1] < first
    assert plenty[0] == tight[0]


FORKED = """
import os, sys
from pathlib import Path
from odtc.runtime_rpc.native.binding import NativeTrainer

with NativeTrainer(Path(sys.argv[1]), 2) as native:
    native.step(0.1)
    child = os.fork()
    if not child:
        for call in (native.step, native.use_threads, native.evaluate):
            try:
                call(*[1] * (call != native.evaluate))
            except Exception as error:
                print(error, flush=True)
        native.close()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    native.step(0.1)
print("went on")
"""


def test_a_fork_is_refused_and_does_not_wait(members: Path) -> None:
    """The threads of a trainer are of the process that made it."""
    done = subprocess.run(
        [sys.executable, "-c", FORKED, str(members)],
        stdout=subprocess.PIPE,
        text=True,
        timeout=60,
        check=True,
    )
    *refusals, last = done.stdout.splitlines()
    assert last == "went on"
    assert len(refusals) == 3
    assert all("whose threads a fork of it has not" in each for each in refusals)


def test_a_closed_trainer_says_so(members: Path) -> None:
    native = NativeTrainer(members, 1)
    native.close()
    native.close()
    for call in (lambda: native.step(0.1), lambda: native.steps, native.cancel):
        with pytest.raises(NativeError, match="the trainer is closed") as caught:
            call()
        assert caught.value.code is Code.USAGE
