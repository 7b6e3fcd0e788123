"""One model in a worker process: whether its step stays within its tensors."""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from odtc.artifact import Artifact
from odtc.core.errors import NumericError, OdtcError
from odtc.driver.entry_points import compile_model
from tests.fuzz.verdict import Outcome, fed
from tests.guarded.models import model_of
from tests.guarded.plan import Tensors, apart
from tests.guarded.session import GuardedSession, guarded_arguments

STEPS, THREADS = 2, 2
# What memory holds that nothing wrote: zeros, and floats that are no numbers.
VALUES = (0x00, 0xFF)


def attempt(name: str) -> Outcome:
    """Takes steps of a model; a touch of a guarded page ends the process.

    What is read and was never written shows itself by other bits, since it is another each time.
    """
    model, options = model_of(name)
    with tempfile.TemporaryDirectory() as folder, apart() as plans, guarded_arguments():
        path = Path(folder) / "model.onnx"
        onnx.save(model, path)
        try:
            artifact = compile_model(path, **options)
        except OdtcError as error:
            return Outcome("refused", str(error))
        ends = [_steps(artifact, plans, value) for value in VALUES]
    if isinstance(ends[0], str) or isinstance(ends[1], str):
        wrong = next((end for end in ends if isinstance(end, str) and end != "diverged"), "")
        both = ends[0] == ends[1]
        return Outcome("diverged") if both and not wrong else Outcome("fault", wrong or "once only")
    unlike = [key for key in ends[0] if not np.array_equal(ends[0][key], ends[1][key])]
    return Outcome("fault", f"depend on memory: {unlike}") if unlike else Outcome("trained")


def _steps(
    artifact: Artifact, plans: Mapping[int, Tensors], value: int
) -> dict[str, np.ndarray] | str:
    """Losses and parameters as bits; or what went wrong."""
    session = GuardedSession(plans=plans, value=value)
    trainer = artifact.trainer(session, threads=THREADS)
    feeds, labels = fed(artifact)
    losses = []
    try:
        for _ in range(STEPS):
            losses.append(trainer.step(feeds, labels, lr=0.01))
            wrong = session.wrong()
            if wrong:
                return f"written beside tensors {wrong}"
            session.forget(artifact.manifest.plans[0].arena_bytes)
    except NumericError:
        return "diverged"
    found: dict[str, Any] = {**trainer.parameters(), "": np.array(losses, np.float32)}
    return {key: np.ascontiguousarray(array).view(np.uint8) for key, array in found.items()}
