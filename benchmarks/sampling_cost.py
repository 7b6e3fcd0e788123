"""The cost of sampling to a training step: `python -m benchmarks.sampling_cost`.

Blocks of steps with and without a sampler take turns in one process, and which of the two goes
first alternates from pair to pair: so other load affects both. A pair's cost is how much longer its
block with samples took; the median over pairs is reported. The same goes for the profile's clock.
The sampler's own computation is reported separately, from the time of a process that does nothing
else: other load does not change that.
"""

import argparse
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import onnx

import odtc
from benchmarks.options import add_sizes, positive
from benchmarks.output import (
    about,
    add_figures,
    add_files,
    introduce,
    terminal,
    write_figures,
    write_json,
)
from benchmarks.step_time.cases import case_of
from odtc.comparison.measures.measure import busy_share, spread
from odtc.runtime_rpc.sessions.session import Session
from odtc.runtime_rpc.trainer import Trainer

_WARM_UP = 3
_PERIODS = (0.01, 0.005)
# Of all cores; what others do would be taken for a cost.
_BUSY = 0.1


@dataclass(frozen=True)
class Pair:
    """Two blocks, one after the other.

    Attributes:
        plain: seconds of the block without.
        watched: of that with.
    """

    plain: float
    watched: float

    @property
    def cost(self) -> float:
        """The share that it took longer."""
        return self.watched / self.plain - 1


@dataclass(frozen=True)
class SamplingCost:
    """A measured cost.

    Attributes:
        what: `sampling` or `profile`.
        period: seconds between samples.
        steps: in a block.
        pairs: that were taken.
    """

    what: str
    period: float
    steps: int
    pairs: list[Pair]

    def figures(self) -> dict[str, Any]:
        """For docs/metrics.md, in percent."""
        what = f"{self.what} every {1e3 * self.period:g} ms"
        return {"what": what, "longer": [100 * pair.cost for pair in self.pairs]}

    def text(self) -> str:
        """For people, in percent."""
        cost = spread([pair.cost for pair in self.pairs])
        step = spread([pair.plain / self.steps for pair in self.pairs])
        return (
            f"{self.what} every {1e3 * self.period:g} ms: {cost.text(100)} % of a step of "
            f"{step.text(1e3)} ms; {len(self.pairs)} pairs of blocks of {self.steps} steps"
        )


def _measured(
    step: Callable[[], Any], watch: Callable[[], AbstractContextManager], steps: int, pairs: int
) -> list[Pair]:
    """Pairs of blocks, in turns."""

    def block(context: Callable[[], AbstractContextManager]) -> float:
        with context():
            began = time.perf_counter()
            for _ in range(steps):
                step()
            return time.perf_counter() - began

    found = []
    for number in range(pairs):
        order = (nullcontext, watch) if number % 2 else (watch, nullcontext)
        seconds = {context: block(context) for context in order}
        found.append(Pair(seconds[nullcontext], seconds[watch]))
    return found


def _own_share(session: Session, period: float, seconds: float = 3.0) -> float:
    """The share of one core that a sampler's thread takes."""
    # TVM's threads look for work for a while.
    time.sleep(1.0)
    with session.sampling(period):
        began, spent = time.perf_counter(), time.process_time()
        time.sleep(seconds)
        return (time.process_time() - spent) / (time.perf_counter() - began)


def _trainer(name: str, batch: int | None, threads: int) -> tuple[Trainer, Callable[[], Any]]:
    case = case_of(name, batch)
    with TemporaryDirectory() as folder:
        onnx.save(case.model, Path(folder, "model.onnx"))
        artifact = odtc.compile(
            Path(folder, "model.onnx"), batch=case.batch, loss=case.loss, dropout=False
        )
    trainer = artifact.trainer(threads=threads)
    return trainer, partial(trainer.step, case.x, case.y, 0.0)


def main() -> int:
    """Measures; returns the exit status: 1 where the machine had something else to do."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.sampling_cost", description=(__doc__ or "").splitlines()[0]
    )
    add = partial(parser.add_argument, metavar="")
    add("--network", default="zoo/squeezenet", help="by name")
    add_sizes(parser, batch=4, threads=2)
    add("--steps", type=positive, default=2, help="steps in a block")
    add("--pairs", type=positive, default=100, help="pairs of blocks")
    add_files(parser, "sampling_cost")
    add_figures(parser, "metrics/sampling")
    options = parser.parse_args()
    console = terminal()
    said = about() | {"network": options.network, "batch": options.batch}
    said |= {"threads": options.threads, "busy_share": busy_share()}
    introduce(console, said, f"{options.network}, batch {options.batch}, {options.threads} threads")
    trainer, step = _trainer(options.network, options.batch, options.threads)
    for _ in range(_WARM_UP):
        step()
    said["own_share"] = {period: _own_share(trainer.session, period) for period in _PERIODS}
    for period, share in said["own_share"].items():
        console.print(f"a sampler takes {share:.2%} of a core, every {1e3 * period:g} ms")
    costs = []
    for what, watch in (("sampling", trainer.session.sampling), ("profile", trainer.profile)):
        for period in _PERIODS:
            pairs = _measured(step, partial(watch, period), options.steps, options.pairs)
            costs.append(SamplingCost(what, period, options.steps, pairs))
            console.print(costs[-1].text())
    said["busy_share_after"] = busy_share()
    write_json(said, "costs", costs, options.json)
    write_figures(options.figures, said, [cost.figures() for cost in costs])
    busy = max(said["busy_share"], said["busy_share_after"])
    if busy > _BUSY:
        console.print(f"others kept {busy:.0%} of the machine busy: measure again when it is quiet")
    return 1 if busy > _BUSY else 0


if __name__ == "__main__":
    sys.exit(main())
