"""Steps under budgets: compiled, compared, timed in turns, and measured in processes."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import onnx
from onnx import numpy_helper

import odtc
from benchmarks.memory.cases import MODEL
from benchmarks.memory.engines import STEPS
from benchmarks.memory.planned import PlannedBytes
from benchmarks.memory.rows import ORT, TORCH
from benchmarks.memory.worker import STORE, TaskError, run
from benchmarks.step_time.cases import StepCase
from benchmarks.step_time.compare import StepComparison, compare
from benchmarks.step_time.engines import OURS, Make, OdtcEngine, ort_engine, torch_engine
from odtc.cli.console import readable_bytes
from odtc.comparison.measures.resident import Sample
from odtc.core.errors import BudgetError
from odtc.core.specs import Role

ARTIFACT = "step.odtc"
# Peers with how they train, and the tasks that measure them; the last one returns the memory.
PEERS: dict[str, tuple[Make, tuple[str, ...]]] = {
    TORCH: (torch_engine, ("torch",)),
    ORT: (ort_engine, ("write-onnxruntime", "onnxruntime")),
}
# What each budget may be tried with, too, by name.
LEVERS: dict[str, dict[str, Any]] = {
    "file": {"offload": True},
    "float16": {"allow_half_activations": True},
}
# Arguments that are neither in the arena nor parameters or state.
_FED = (Role.INPUT, Role.LABEL, Role.LEARNING_RATE, Role.STEP)


@dataclass
class BudgetWay:
    """One way to run the step.

    Attributes:
        name: of a share of the arena, or of a peer.
        budget: bytes; None where there is none.
        lever: of `LEVERS`; empty where there is none.
        micro_batches: that odtc cuts the batch into.
        stored: bytes of the file in which tensors wait.
        calls: of a micro-batch, those that run again among them.
        plan: bytes of odtc; None for a peer, and where the budget cannot be met.
        samples: of processes that took steps.
        failure: why there are none.
    """

    name: str
    budget: int | None = None
    lever: str = ""
    micro_batches: int = 1
    stored: int = 0
    calls: int = 0
    plan: PlannedBytes | None = None
    samples: list[Sample] = field(default_factory=list)
    failure: str = ""

    @property
    def net(self) -> int | None:
        """Bytes that a process grew by: the median."""
        return round(median(each.net for each in self.samples)) if self.samples else None

    @property
    def beyond(self) -> int | None:
        """Bytes that a process grew by beyond its plan and what it is fed."""
        if self.net is None or self.plan is None:
            return None
        return self.net - self.plan.total - self.plan.fed


@dataclass
class NetworkWays:
    """All ways of one network.

    Attributes:
        comparison: losses and times, in the order of the ways that could be made.
        ways: the step as it is, then budgets, then peers.
    """

    comparison: StepComparison
    ways: list[BudgetWay]


@dataclass(frozen=True)
class BudgetTerms:
    """How steps are compiled and measured.

    Attributes:
        shares: of the arena of the step as it is, that budgets are.
        totals: bytes that arena, accumulators, parameters and optimizer state may take together.
        peers: names of those to compare with.
        allow_split_batchnorm: whether batch statistics may be those of micro-batches.
        levers: that each budget is tried with as well.
        steps: timed ones of each way.
        runs: processes that each is measured in.
        only_budgets: whether nothing is compared: a machine may have no room for a step without.
    """

    shares: Sequence[float]
    totals: Sequence[int]
    peers: Sequence[str]
    allow_split_batchnorm: bool
    levers: Sequence[str]
    steps: int
    runs: int
    only_budgets: bool = False


def found_ways(
    case: StepCase, terms: BudgetTerms, folder: Path, tell: Callable[[str], None]
) -> NetworkWays:
    """Runs a network in all ways.

    Args:
        case: of the network.
        terms: how.
        folder: an empty one.
        tell: called with what runs now.
    """
    ways = _compiled(case, terms, folder, tell)
    made = [way for way in ways if not way.failure]
    engines: dict[str, Make] = {}
    if not terms.only_budgets:
        engines |= {way.name: _engine(folder / way.name) for way in made}
        engines |= {name: PEERS[name][0] for name in terms.peers}
        tell("losses and times")
    comparison = compare(case, engines, terms.steps, folder, _of_other_losses(ways, terms))
    peers = [
        BudgetWay(timing.engine, failure=timing.skipped)
        for timing in comparison.timings[len(made) :]
    ]
    _measure(case, [*made, *peers], terms.runs, folder, tell)
    return NetworkWays(comparison, [*ways, *peers])


def _of_other_losses(ways: Sequence[BudgetWay], terms: BudgetTerms) -> frozenset[str]:
    """The ways whose batch normalisations take the statistics of micro-batches."""
    if not terms.allow_split_batchnorm:
        return frozenset()
    return frozenset(way.name for way in ways if way.micro_batches > 1)


def _compiled(
    case: StepCase, terms: BudgetTerms, folder: Path, tell: Callable[[str], None]
) -> list[BudgetWay]:
    """The step as it is, and under each budget; artifacts lie in folders of their names."""
    onnx.save(case.model, folder / MODEL)
    ways = [] if terms.only_budgets else [BudgetWay(OURS)]
    for first in ways:
        _compile(first, case, terms, folder, tell)
    # Plain SGD has no state.
    beside = sum(numpy_helper.to_array(each).nbytes for each in case.model.graph.initializer)
    arena = ways[0].plan.arena if ways and ways[0].plan else 0
    budgets = {
        **{f"{share:.0%}": int(share * arena) for share in terms.shares},
        **{readable_bytes(total): max(1, total - beside) for total in terms.totals},
    }
    for name, budget in sorted(budgets.items(), key=lambda each: -each[1]):
        plain = BudgetWay(f"{OURS}, {name}", budget)
        for way in (
            plain,
            *(BudgetWay(f"{plain.name}, {lever}", budget, lever) for lever in terms.levers),
        ):
            _compile(way, case, terms, folder, tell)
            ways.append(way)
    return ways


def _compile(
    way: BudgetWay, case: StepCase, terms: BudgetTerms, folder: Path, tell: Callable[[str], None]
) -> None:
    tell(f"compile {way.name}")
    try:
        artifact = odtc.compile(
            folder / MODEL,
            f"host-cpu{{threads={case.threads}}}",
            batch=case.batch,
            loss=case.loss,
            optimizer=odtc.SGD(),
            dropout=False,
            freeze=case.frozen,
            freeze_batch_norm=bool(case.frozen),
            memory_budget=way.budget,
            allow_split_batchnorm=terms.allow_split_batchnorm,
            **LEVERS.get(way.lever, {}),
        )
    except BudgetError as error:
        way.failure = error.what
        return
    manifest, sizes = artifact.manifest, artifact.manifest.sizes
    fed = sum(item.spec.nbytes for item in manifest.of_role(*_FED))
    bound = artifact.memory.lower_bound_bytes
    way.plan = PlannedBytes(sizes.train_step, bound, sizes.parameters, sizes.optimizer, fed)
    way.micro_batches, way.calls = manifest.micro_batches, len(artifact.memory.plan.calls)
    way.stored = manifest.stored_bytes
    (folder / way.name).mkdir()
    artifact.save(folder / way.name / ARTIFACT)


def _engine(own: Path) -> Make:
    """odtc, with the artifact of a folder."""
    return lambda case, _: OdtcEngine(case, own)


def _measure(
    case: StepCase, ways: Sequence[BudgetWay], runs: int, folder: Path, tell: Callable[[str], None]
) -> None:
    """Measures the memory of each way in processes of its own."""

    def attempt(way: BudgetWay, task: str, *arguments: str) -> Any:
        try:
            return run(task, folder, case.threads, *arguments)
        except TaskError as error:
            way.failure = str(error)
            return None

    stored = BudgetWay(STORE)
    attempt(stored, STORE, case.name, str(case.batch), str(case.threads))
    for way in ways:
        way.failure = way.failure or stored.failure
        if way.failure:
            continue
        tell(f"memory of {way.name}, {runs} processes of {STEPS} steps")
        before, task = _tasks(way)
        if way.plan is not None:
            shutil.copyfile(folder / way.name / ARTIFACT, folder / ARTIFACT)
        for each in before:
            attempt(way, each)
        taken = [None if way.failure else attempt(way, task) for _ in range(runs)]
        way.samples = [Sample(**each) for each in taken if each]


def _tasks(way: BudgetWay) -> tuple[Sequence[str], str]:
    """Returns the tasks that prepare the measurement of a way, and the one that measures it."""
    tasks: Mapping[str, tuple[str, ...]] = {name: tasks for name, (_, tasks) in PEERS.items()}
    *before, task = tasks.get(way.name, (OURS,))
    return before, task
