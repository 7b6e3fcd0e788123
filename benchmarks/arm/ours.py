"""odtc in the emulator: a step of an artifact in the native runtime, without Python."""

import subprocess
from pathlib import Path

import numpy as np
import onnx

import odtc
from benchmarks.arm.cores import Core
from benchmarks.arm.emulator import Counted, count
from benchmarks.step_time.cases import StepCase, case_of
from odtc.core.errors import BuildError
from odtc.runtime_rpc.native.build import FOLDER
from odtc.runtime_rpc.profile.build import operators_of

COMPILER = "aarch64-linux-gnu-gcc"
_GUEST = Path(__file__).parent / "guests" / "steps.c"
# Samples of a step, where it is not one: an emulator takes its time.
_BATCH = {"lenet": 4, "bert_tiny": 2, "char_lstm": 2}
_MEMBERS = ("program.bin", "parameters.safetensors", "step.so")


def counted_case(model: str, batch: int | None = None) -> StepCase:
    """A model, with a few samples where no number of them is given."""
    return case_of(model, batch or _BATCH.get(model, 1))


def counted_odtc(case: StepCase, core: Core, steps: int, folder: Path) -> Counted:
    """Compiles a model for a core, and counts steps of it.

    Args:
        case: the model and its batch.
        core: that kernels are made for, and whose caches are simulated.
        steps: how many are counted.
        folder: an empty one, which keeps `step.so`.

    Raises:
        BuildError: a compiler is missing or failed, or the step did.
    """
    words = prepared(case, core.mcpu, steps, folder)
    (counted,) = count(words, [core], folder)
    return counted


def prepared(case: StepCase, mcpu: str, steps: int, folder: Path) -> list[str]:
    """Compiles a model, and returns the guest that takes steps of it.

    Args:
        case: the model and its batch.
        mcpu: of the target; several CPUs are joined by plus signs.
        steps: how many are counted.
        folder: an empty one, in which the guest runs.

    Raises:
        BuildError: a compiler is missing or failed.
    """
    onnx.save(case.model, folder / "model.onnx")
    artifact = odtc.compile(
        folder / "model.onnx",
        target=f"linux-arm64-cpu{{mcpu={mcpu}}}",
        batch=case.batch,
        loss=case.loss,
        dropout=False,
        freeze=case.frozen,
        freeze_batch_norm=bool(case.frozen),
    )
    artifact.save(folder / "step.odtc")
    for name in _MEMBERS:
        (folder / name).write_bytes((artifact._bundle.root / name).read_bytes())
    fed = [*case.x.values(), case.y]
    expected = [*artifact.manifest.inputs, *(label.spec for label in artifact.manifest.labels)]
    typed = [np.asarray(a, spec.dtype) for a, spec in zip(fed, expected, strict=True)]
    (folder / "batch").write_bytes(b"".join(map(np.ndarray.tobytes, typed)))
    return [_program(folder), *_MEMBERS, "batch", str(steps), repr(case.lr)]


def _program(folder: Path) -> str:
    """The native runtime in a program, as it is compiled for a board."""
    program = folder / "steps"
    sources = [*map(str, sorted(FOLDER.glob("*.c"))), str(_GUEST)]
    command = [COMPILER, "-std=c11", "-O2", f"-I{FOLDER}", *sources, "-o", str(program)]
    try:
        subprocess.run([*command, "-lpthread", "-ldl", "-lm"], check=True)
    except FileNotFoundError as error:
        raise BuildError(
            f"{COMPILER} is not installed", hint="run `apt-get install gcc-aarch64-linux-gnu`"
        ) from error
    return str(program)


def nodes_of_kernels(folder: Path) -> dict[str, str]:
    """What the kernels of a counted step compute: the phase and nodes of the first call of each."""
    found: dict[str, str] = {}
    for operator in operators_of(odtc.load(folder / "step.odtc").memory.plan):
        found.setdefault(operator.kernel, f"{operator.phase.value} {', '.join(operator.nodes)}")
    return found
