"""odtc's part of a case: the batch that all train on, its artifact, and the learning rate."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from odtc.comparison.case import Arrays, Case, read_batch, write_batch
from odtc.comparison.measures.parity import PARITY_STEPS
from odtc.core.specs import Role, of_role

if TYPE_CHECKING:
    from odtc.backends.targets import Target
    from odtc.driver.options.step_options import StepOptions

# The most that the first steps may change the loss by, relative to it: beyond that, rounding alone
# drives any two engines apart.
_GENTLE = 0.01
_RATES = [10.0**-power for power in range(1, 9)]


def write_data(case: Case, folder: Path) -> None:
    """Writes one batch, drawn or of the user's data; nothing is compiled for it.

    Raises:
        OdtcError: odtc cannot train the model, or the data does not fit it.
    """
    from odtc.core.process.progress import silent
    from odtc.driver.preparation import prepare
    from odtc.runtime_rpc.data.arrays import read_npz
    from odtc.runtime_rpc.data.drawn import draw_arguments
    from odtc.runtime_rpc.data.source import Stream
    from odtc.runtime_rpc.data.wanted import Wanted

    arguments = prepare(case.model, _target(case), _options(case), silent).training.arguments
    inputs, labels = (of_role(arguments, role) for role in (Role.INPUT, Role.LABEL))
    if case.data:
        samples = read_npz(Path(case.data), Wanted(inputs, labels))
        write_batch(*next(Stream(samples, case.batch, seed=0).batches(0)), folder)
    else:
        write_batch(*draw_arguments(inputs, labels), folder)


def work_of(case: Case) -> dict[str, int]:
    """Operations and bytes of a step; 0 where a shape that they depend on is not known."""
    from odtc.comparison.measures.workload import training_work
    from odtc.frontend.file.onnx_file import load_model

    try:
        work = training_work(load_model(case.model), case.batch, dict(case.shape))
    except ValueError:
        return {"flops": 0, "moved": 0}
    return {"flops": work.flops, "moved": work.bytes}


def compile_step(case: Case, artifact: Path) -> int:
    """Compiles the step.

    Returns:
        The bytes that it needs: arena, parameters and optimizer state.

    Raises:
        OdtcError: it cannot be compiled, or not within its budget.
    """
    from odtc.core.disk.content_store import nothing_kept
    from odtc.core.options.byte_sizes import parse_budget
    from odtc.core.process.progress import silent
    from odtc.driver import compilation

    budget = parse_budget(case.budget or None, "memory_budget")
    # The others do not cache what they prepare.
    with nothing_kept():
        compiled = compilation.compile_step(
            Path(case.model), _target(case), _options(case), budget, silent
        )
    compiled.save(artifact)
    sizes = compiled.manifest.sizes
    return sizes.train_step + sizes.parameters + sizes.optimizer


def gentle_rate(case: Case, artifact: Path, folder: Path) -> float:
    """The largest learning rate, of powers of ten, at which the first losses change little.

    Args:
        case: to train.
        artifact: of the step.
        folder: of the batch.
    """
    from odtc.artifact import load

    x, y = read_batch(folder)
    loaded = load(artifact)

    def losses(rate: float) -> list[float]:
        return _losses(loaded.trainer(threads=threads_of(case)).step, x, y, rate)

    return next((rate for rate in _RATES if is_gentle(losses(rate))), _RATES[-1])


def is_gentle(losses: Sequence[float]) -> bool:
    """Whether losses change by at most a hundredth of the first one."""
    first = losses[0]
    return all(math.isfinite(each) and abs(each - first) <= _GENTLE * abs(first) for each in losses)


def _losses(step: Callable[..., float], x: Arrays, y: Arrays, rate: float) -> list[float]:
    """Returns the losses of the first steps; one that is not finite ends them."""
    from odtc.core.errors import NumericError

    found: list[float] = []
    try:
        for _ in range(PARITY_STEPS):
            found.append(step(x, y, rate))
    except NumericError:
        found.append(math.inf)
    return found


def threads_of(case: Case) -> int | None:
    """Of odtc's step: those of the others, or none on a GPU."""
    from odtc.backends.cpus import CPU

    return case.threads if _target(case).kind == CPU else None


def _target(case: Case) -> "Target":
    from odtc.backends.targets import parse_target

    return parse_target(case.target or f"host-cpu{{threads={case.threads}}}")


def _options(case: Case) -> "StepOptions":
    from odtc.driver.options.step_options import StepOptions
    from odtc.frontend.losses.terms import parse_terms

    loss, shape = parse_terms(case.loss), dict(case.shape)
    return StepOptions(batch=case.batch, loss=loss, shape=shape, dropout=False)
