"""All engines on one network, and how they compare."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.memory.planned import PlannedBytes, TvmPlan
from benchmarks.memory.worker import STORE, TaskError, run
from odtc.comparison.measures.resident import Sample

OURS, TVM, ALONE, ORT, TORCH = (
    "odtc",
    "TVM",
    "TVM's planner alone",
    "onnxruntime-training",
    "PyTorch",
)
ENGINES = (OURS, TVM, ORT, TORCH)
# What odtc is compared with, and the geometric mean of its total by theirs that is aimed at.
PEERS: dict[str, float | None] = {TVM: 0.5, ALONE: None, ORT: 0.4, TORCH: 0.35}


@dataclass
class MemoryRow:
    """One network.

    Attributes:
        network: its name.
        batch: samples in a step.
        plan: of odtc; None where it failed.
        tvm: of TVM; None where it failed or was not asked for.
        samples: of each engine that was run, one a process.
        failures: why an engine has no result.
    """

    network: str
    batch: int
    plan: PlannedBytes | None = None
    tvm: TvmPlan | None = None
    samples: dict[str, list[Sample]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    def net(self, engine: str) -> int | None:
        """Returns the bytes that a process of the engine grew by: the median."""
        samples = self.samples.get(engine)
        return round(median(sample.net for sample in samples)) if samples else None

    @property
    def beyond(self) -> int | None:
        """Bytes that a process of odtc grew by beyond its total and its batch."""
        net = self.net(OURS)
        return None if self.plan is None or net is None else net - self.plan.total - self.plan.fed

    @property
    def files(self) -> int | None:
        """Pages of mapped files by which a process of odtc grew: the median."""
        samples = self.samples.get(OURS)
        return round(median(sample.files for sample in samples)) if samples else None

    def peer(self, name: str) -> int | None:
        """Bytes of one of `PEERS`; None where it has no result."""
        if name not in (TVM, ALONE):
            return self.net(name)
        if self.tvm is None or self.plan is None:
            return None
        planned = self.tvm.new_parameters if name == TVM else self.tvm.alone
        return planned + self.plan.parameters + self.plan.optimizer

    def ratio(self, name: str) -> float | None:
        """The total of odtc by the bytes of a peer; None where one is missing."""
        peer = self.peer(name)
        return self.plan.total / peer if self.plan and peer else None


@dataclass(frozen=True)
class MemoryTerms:
    """How all engines are run.

    Attributes:
        batch: samples in a step.
        threads: worker threads.
        runs: processes that each is measured in.
    """

    batch: int
    threads: int
    runs: int


def measured_row(
    network: str,
    engines: Sequence[str],
    terms: MemoryTerms,
    folder: Path,
    tell: Callable[[str], None],
) -> MemoryRow:
    """Runs all tasks of a network.

    Args:
        network: its name.
        engines: some of `ENGINES`, odtc among them.
        terms: how they are run.
        folder: an empty one.
        tell: called with what runs now.
    """
    row = MemoryRow(network, terms.batch)

    def attempt(engine: str, task: str, *arguments: str) -> Any:
        """Runs a task and returns its result; notes a failure and returns None."""
        if engine in row.failures:
            return None
        tell(task)
        try:
            return run(task, folder, terms.threads, *arguments)
        except TaskError as error:
            row.failures[engine] = str(error)
            return None

    def sampled(engine: str, task: str) -> None:
        found = [attempt(engine, task) for _ in range(terms.runs)]
        row.samples[engine] = [Sample(**each) for each in found if each]

    attempt(STORE, STORE, network, str(terms.batch), str(terms.threads))
    if STORE in row.failures:
        row.failures = dict.fromkeys(engines, row.failures[STORE])
        return row
    plan = attempt(OURS, "compile")
    row.plan = PlannedBytes(**plan) if plan else None
    sampled(OURS, "odtc")
    if TVM in engines:
        if row.plan is None:
            row.failures[TVM] = "there is no step of odtc for it"
        planned = attempt(TVM, "tvm")
        row.tvm = TvmPlan(**planned) if planned else None
    if ORT in engines:
        attempt(ORT, "write-onnxruntime")
        sampled(ORT, "onnxruntime")
    if TORCH in engines:
        sampled(TORCH, "torch")
    return row


def geometric_mean(values: Sequence[float | None]) -> tuple[float, int] | None:
    """The mean of those that are there, and of how many; None where there is none."""
    found = [value for value in values if value is not None]
    return (float(np.exp(np.log(found).mean())), len(found)) if found else None
