"""Memory of a session of odtc-device: little beside the plan and the parameters."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

import odtc
from benchmarks.models.digits import digits_model
from benchmarks.models.zoo import zoo_model
from tests.fast import fast_if
from tests.runtime_rpc.own_server import NATIVE, serving

STEPS = 5
# Of a model: how it is made, its batch, the shape of a sample, and the bytes that may be beside:
# the C library, the program, the kernels, a batch, and what is described of the step.
CASES = {
    "digits": (digits_model, 32, (1, 8, 8), 5_000_000),
    "squeezenet": (lambda: zoo_model("squeezenet"), 4, (3, 224, 224), 8_000_000),
}


@pytest.mark.parametrize("case", fast_if("digits".__eq__, CASES))
def test_a_session_takes_little_beside_plan_and_parameters(case: str, tmp_path: Path) -> None:
    made, size, shape, beside = CASES[case]
    artifact = compiled(made, size, tmp_path)
    rng = np.random.default_rng(0)
    batch = rng.standard_normal((size, *shape), dtype=np.float32), rng.integers(0, 9, size)
    planned = artifact.memory.arena_bytes + artifact.memory.parameter_bytes
    with serving(tmp_path / "sessions", server=NATIVE) as url:
        trainer = artifact.trainer(url, threads=2)
        trainer.step(*batch, lr=1e-5)
        assert resident(trainer, "VmHWM") <= planned + beside
        # The batches of a call are there while it runs, and no longer.
        list(trainer.train([batch] * STEPS, 1e-5, steps_per_call=STEPS))
        assert planned < resident(trainer, "VmRSS") <= planned + beside
        given = STEPS * sum(part.nbytes for part in batch)
        assert resident(trainer, "VmHWM") <= planned + beside + given
        trainer.session.close()


def compiled(made: Callable[[], onnx.ModelProto], batch: int, folder: Path) -> odtc.Artifact:
    onnx.save(made(), folder / "m.onnx")
    return odtc.compile(folder / "m.onnx", "host-cpu", batch=batch)


def resident(trainer: odtc.Trainer, field: str) -> int:
    """Bytes of the session's process that are resident, or the most that were."""
    status = Path(f"/proc/{trainer.session.info()['pid']}/status").read_text()
    (kib,) = re.findall(rf"^{field}:\s+(\d+) kB$", status, re.MULTILINE)
    return int(kib) << 10
