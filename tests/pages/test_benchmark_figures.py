"""Benchmarks write for pages what the pages read."""

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from benchmarks import (
    app_size,
    check_cost,
    demo,
    features,
    output,
    sampling_cost,
    training_data,
)
from benchmarks.budget import clearing, least, switching
from benchmarks.budget.report import figures_of as budget_figures
from benchmarks.budget.report import peer_figures
from benchmarks.budget.ways import BudgetWay, NetworkWays
from benchmarks.compile_time import __main__ as compile_time
from benchmarks.cores import figures as cores
from benchmarks.gpu import figures as gpu
from benchmarks.gpu.language_models import figures as gpu_language_models
from benchmarks.gpu.tuning import figures as gpu_tuning
from benchmarks.language_models.compare import Row as SideRow
from benchmarks.language_models.figures import figures_of as adapter_figures
from benchmarks.language_models.sides import CHECKPOINTED, Turn
from benchmarks.memory.planned import PlannedBytes
from benchmarks.memory.report import bounds_of
from benchmarks.memory.report import figures_of as memory_figures
from benchmarks.memory.rows import ORT, OURS, TORCH, MemoryRow
from benchmarks.native_runtime.found import Found as NativeFound
from benchmarks.native_runtime.found import Measured
from benchmarks.pages.measured import measured
from benchmarks.pages.parts import TABLES
from benchmarks.pages.result import Result, read_file, write_result
from benchmarks.pages.rows import language_models
from benchmarks.pages.rows.budgets import in_short_64
from benchmarks.plan_time import __main__ as plan_time
from benchmarks.recomputation.report import Curve, PlannedStep, Share
from benchmarks.recomputation.report import figures_of as plan_figures
from benchmarks.step_time.compare import StepComparison, Timing
from benchmarks.step_time.report import figures_of as step_figures
from odtc.comparison.measures.resident import Sample
from odtc.comparison.measures.workload import StepWork
from odtc.core.artifact.manifest import Sizes
from tests.native.same_bits.__main__ import row_of

MB = 1_000_000
PLAN = PlannedBytes(30 * MB, 30 * MB, 4 * MB, MB, MB)


def compared(*names: str) -> StepComparison:
    """A step of 10 ms; each peer takes 10 ms longer than the one before."""
    timings = [Timing(name, [1.0], [0.01 * (at + 1)] * 3) for at, name in enumerate(names)]
    return StepComparison("net", 4, 2, 0.1, StepWork(1, 1), (0.0, 0.0), timings)


def sample(net: int) -> Sample:
    return Sample(0, 0, net, [1.0], MB)


def compiles() -> list[compile_time.CompileRow]:
    seconds = {"start": 1.0, "link": 3.0}
    runs = [*compile_time.RUNS, "TVM's own pipeline"]
    return [compile_time.CompileRow("digits", run, seconds, seconds, 9 * MB) for run in runs]


def budgets() -> list[NetworkWays]:
    ways = [
        BudgetWay(OURS, plan=PLAN, samples=[sample(40 * MB)]),
        BudgetWay(f"{OURS}, 50%", 15 * MB, plan=PLAN, micro_batches=2, samples=[sample(30 * MB)]),
        BudgetWay(f"{OURS}, 1%", 1, failure="no plan"),
        *(BudgetWay(name, samples=[sample(80 * MB)]) for name in (TORCH, ORT)),
    ]
    return [NetworkWays(compared(OURS, f"{OURS}, 50%", TORCH, ORT), ways)]


def changes() -> list[switching.Changes]:
    ways = ((2, "down"), (1, "down"), (2, "up"), (3, "up"))
    return [switching.Changes("net", at * MB, way, [2.0], [1.0 * at]) for at, way in ways]


def planned() -> PlannedStep:
    shares = [Share(0.9, 1.1, {OURS: 1.25}), Share(0.5, None, {OURS: None})]
    return PlannedStep("net", 1234, MB, 2.0, shares, [Curve(OURS, [(MB, 1.0)])])


def gpu_task(usual: float, best: float) -> dict[str, Any]:
    """A product of benchmarks.gpu.tuning, in seconds."""
    again = {"usual": [usual], "best": [best]}
    said = {"network": "net", "target": "host-vulkan{mcpu=a}", "calls": 3, "wrong": 0}
    tried = {"workload": "product", "choices": [{}, {"tile": [8, 8, 8]}], "best": 1}
    return {**said, **tried, "samples": {"0": [usual], "1": [best]}, "again": again}


def on_cores(threads: int, ms: float) -> dict[str, Any]:
    sides = {"odtc": [ms], "pytorch": [3 * ms]}
    about = {"network": "net", "batch": 4}
    return {"about": about, "threads": threads, "milliseconds": sides}


def gpu_network(precision: str = "float32") -> dict[str, Any]:
    family = {"name": "data gradient", "seconds": 0.004, "bound": 0.001}
    return {
        "about": {"network": "net", "target": "host-opencl{gpu=x}", "precision": precision},
        "milliseconds": {"odtc": [2.0, 4.0], "pytorch": [6.0, 12.0]},
        "profile": {"moves": 30_000, "gaps": 150_000, "span": 3_000_000},
        "families": [family, {**family, "name": "copies"}],
    }


def gpu_language_model() -> dict[str, Any]:
    about = {"model": "net", "batch": 2, "tokens": 4, "base": "int4", "target": "host-vulkan"}
    sides = ("odtc", TORCH, CHECKPOINTED)
    return {
        "about": about,
        "milliseconds": dict(zip(sides, ([2.0, 2.0], [6.0, 6.0], [10.0, 10.0]), strict=True)),
        "bytes": dict(zip(sides, (7 * MB, 8 * MB, 9 * MB), strict=True)),
    }


def adapter_rows() -> list[SideRow]:
    """Of PyTorch and a base; the run with checkpoints failed."""
    turns = [Turn([9.0, each], [1.0, 0.9], 8 * MB, MB, 2 * MB) for each in (0.5, 0.5)]
    ours = [dataclasses.replace(each, seconds=[9.0, 0.25], imported=0) for each in turns]
    parity = dataclasses.replace(turns[0], imported=3 * MB)
    return [
        SideRow("net", 4, CHECKPOINTED, skipped="it ended"),
        SideRow("net", 4, TORCH, turns),
        SideRow("net", 4, "int4", ours, parity),
        SideRow("net", 4, "int8", skipped="losses differ"),
    ]


def native() -> NativeFound:
    starts, resident = [2.0, 400.0, 2000.0, 600.0], [3.0, 40.0, 400.0, 90.0]
    steps = [[0.25], [0.4], [0.5], [0.6]]
    row = Measured("digits", 32, 1, True, steps, [1.0] * 4, starts, resident)
    sizes = {"-O2": 55000}, {"net.aar": 5 * MB}, {"library": 25 * MB}
    return NativeFound(*sizes, {"digits": 8000}, {"digits": MB}, [row])


def trained() -> demo.Training:
    sizes = Sizes(parameters=1, optimizer=2, train_step=3, evaluate=4, accumulators=0)
    return demo.Training("net", 4, 2, 1.5, [8.0, 3.0], [0.02] * 3, sizes)


# By table: what its benchmark writes, and a part of the lines that the page has then.
WRITTEN: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "performance/demo": (
        {
            "rows": [demo.figures_of(trained())],
            "accuracy": {"odtc": 0.5, "onnxruntime": 0.25},
        },
        "step, ms              20.0 (20.0 to 20.0)",
    ),
    "performance/step_time": (
        {
            "rows": step_figures([compared(OURS, "PyTorch", "onnxruntime-training")]),
            "gflops": {"2": {"registers": [100.0], "product": [80.0]}},
        },
        "| net | 4 | 2 | 10.0 | 2.00 (2.00 to 2.00) | 3.00 (3.00 to 3.00) |",
    ),
    "performance/compile_time": (
        {"rows": list(compile_time.figures_of(compiles()))},
        "| digits | 32 | 4.0 (4.0) | 4.0 (4.0) | 4.0 (4.0) | 9 |",
    ),
    "performance/plan_time": (
        {
            "rows": [
                plan_time.PlanRow("net", 8, {"a": 2.0}, {"make x": 3.0, "look": 1.0}, 5).figures()
            ]
        },
        "| net | 8 | 2.0 | 4.0 | 3.0 | 1.0 |",
    ),
    "performance/cores": (
        {"rows": cores.rows_of([on_cores(4, 2.0), on_cores(1, 6.0), {"about": {}}])},
        "| net | 4 | 2.0 | 3.00 (3.00 to 3.00) | 3.0 | 3.0 |",
    ),
    "performance/gpu_steps": (
        {"rows": gpu.steps_of([gpu_network(), gpu_network("mixed")], "float32")},
        "| net | OpenCL | 3.0 | 9.0 | 3.00 (3.00 to 3.00) | 1% | 5% |",
    ),
    "performance/gpu_mixed": (
        {"rows": gpu.steps_of([gpu_network(), gpu_network("mixed")], "mixed")},
        "| net | OpenCL | 3.0 | 9.0 | 3.00 (3.00 to 3.00) | 1% | 5% |",
    ),
    "performance/gpu_tuning": (
        {"rows": gpu_tuning.rows_of([gpu_task(2.0, 1.0), gpu_task(2.0, 3.0)])},
        "| net | Vulkan | 2 | 4 | 12,000.0 | 25.0% |",
    ),
    "performance/gpu_families": (
        {"rows": gpu.families_of([gpu_network()])},
        "| net | OpenCL | - | 4.0 ms, 25% | - | - | - | - | - | - |",
    ),
    "language_models/steps": (
        {"rows": adapter_figures(adapter_rows())},
        "| net | 4 | int4 | 250 | 16 | 2.00 (2.00 to 2.00) |  | 5 | 6 |  | 8 | 1 |",
    ),
    "language_models/gpu": (
        {"rows": gpu_language_models.rows_of([gpu_language_model()])},
        "| 2.0 | 4,000 | 3.00 (3.00 to 3.00) | 5.00 (5.00 to 5.00) | 7 | 8 | 9 |",
    ),
    "memory/networks": (
        {
            "rows": memory_figures(
                [
                    MemoryRow(
                        "net",
                        4,
                        PLAN,
                        samples={OURS: [sample(40 * MB)], TORCH: [sample(70 * MB)]},
                    )
                ]
            ),
            **bounds_of([MemoryRow("net", 4, PLAN)]),
        },
        "| net | 30.0 | 35.0 |  |  | 0.50 | 4.0 | 1.0 |",
    ),
    "budgets/batch_8": (
        {"rows": budget_figures(budgets()), "pytorch": peer_figures(budgets())},
        "|  | 50% | 30 | 0.38 | 2.00 (2.00 to 2.00) |",
    ),
    "budgets/batch_64": (
        {"rows": budget_figures(budgets())},
        "| net | 19 | 2 | 35.0 | 30.0 | 80 | 2.7 times | 2.00 (2.00 to 2.00) | 4.00 (4.00 to",
    ),
    "budgets/two_gib": (
        {"rows": budget_figures(budgets())},
        "| net | 2 | 30 | 35 | 30 |",
    ),
    "budgets/clearing": (
        {
            "rows": [clearing.figures_of(clearing.Cleared("huge", 100 * MB, [0.1], [0.05]))],
            "megabytes": 100,
        },
        "| huge | 100 (100 to 100) | 1.0 | 50 (50 to 50) | 2.0 |",
    ),
    "budgets/switching": (
        {"rows": switching.figures_of(changes())},
        "| net | 1, 2, 3 | 2.00, 1.00 | 1.00, 0.67 |",
    ),
    "budgets/recomputation": (
        {"rows": plan_figures([planned()])},
        "| net | 1,234 | 2.0 s | 90% | 1.1000 | 1.2500 |  |  |  |",
    ),
    "native_runtime/steps": (
        native().figures(),
        "| digits | 32 | 1 | step, ms | 0.250 | 0.400 | 0.500 | 0.600 |",
    ),
    "native_runtime/same_bits": (
        {
            "rows": [row_of("momentum", {"lenet": ("same", ""), "vgg16": ("refused", "why")})],
            "steps": 4,
            "threads": [1, 2, 4],
        },
        "| SGD with momentum | 1 | 0 | 1 | 0 |",
    ),
    "howto/app_size": (
        {"rows": [app_size.PartSize("ios", "lib.a", 2 * MB).figures()]},
        "| ios: lib.a | 2,000,000 |  |",
    ),
    "budgets/least": (
        {"rows": [least.LeastArena("net", 3 * MB, 2 * MB, MB).figures()]},
        "| net | 3.0 | 2.0 | 1.0 |",
    ),
    "howto/check_cost": (
        {
            "rows": [
                check_cost.CheckRow(
                    "one node", 1000, 2 * MB, [check_cost.CommandCost(1.5, 5 * MB)]
                ).figures(),
            ]
        },
        "| a matrix product | 1,000 | 2.0 | 1.5 | 5 |",
    ),
    "howto/features": (
        {"rows": [features.Saving("net", 1280, [40.0], [0.5], [20.0]).figures()]},
        "| net | 1,280 | 40 (40 to 40) | 0.50 (0.50 to 0.50) | 20 (20 to 20) |",
    ),
    "howto/training_data": (
        {"rows": [training_data.DataCost("memory", "MB", 300, [40.0]).figures()]},
        "| memory | 40 MB (40 to 40) | 300 MB |",
    ),
    "metrics/sampling": (
        {
            "rows": [
                sampling_cost.SamplingCost(
                    "sampling", 0.01, 2, [sampling_cost.Pair(1.0, 1.5)]
                ).figures(),
            ]
        },
        "| sampling every 10 ms | 50 % (50 to 50) |",
    ),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_a_page_shows_what_a_benchmark_writes(name: str, tmp_path: Path) -> None:
    written, line = WRITTEN[name]
    path = tmp_path / f"{name}.json"
    said = output.about() | {"threads": 2}
    write_result(path, said, **written)
    found = read_file(path)
    lines = TABLES[name](found)
    assert any(line in each for each in lines), "\n".join(lines)
    assert "2 threads" in measured(found, str)


def test_a_step_without_a_budget_is_no_row_beside_budgets_of_all_bytes() -> None:
    result = Result([], budget_figures(budgets()), {})
    assert [row["budget"] for row in result.rows] == ["none", "50%"]
    # With the parameters, and without the accumulators, which the budget counts.
    assert result.rows[1]["budget_mb"] == 15 + PLAN.parameters / MB
    (line,) = in_short_64(result)
    assert line.endswith("onnxruntime-training's: 3 times less for net.")
    assert sum(each.startswith("| net |") for each in TABLES["budgets/batch_64"](result)) == 1


def test_which_adapters_reach_both_aims_is_said() -> None:
    def row(tokens: int, base: str, ratio: float, net: int) -> Mapping[str, Any]:
        peer = {"net": 1000, "ratio": [ratio, ratio]}
        return {"model": "m", "tokens": tokens, "base": base, "net": net, "pytorch": peer}

    rows = [
        *(row(128, "float32", 2, 900), row(128, "int4", 2, 251), row(256, "int4", 1.25, 200)),
        *(row(128, "int4 in half", 1.6, 150), row(256, "int4 in half", 1.25, 200)),
        {"model": "m", "tokens": 512, "base": "int4", "skipped": "there was no room"},
    ]
    (line,) = language_models.in_short(Result([], rows, {}))
    assert line == (
        "The aims are at most 0.7 of the time and 0.25 of the memory that a step takes with "
        "PyTorch over float32, without gradient checkpointing. Over int4 it takes 0.50 to 0.80 "
        "of that time and 0.20 to 0.25 of that memory; both aims are reached by none. Over int4 "
        "in half it takes 0.62 to 0.80 of that time and 0.15 to 0.20 of that memory; both aims "
        "are reached by "
        "m of 128 tokens."
    )


def test_what_is_said_of_a_run(tmp_path: Path) -> None:
    said = output.about()
    assert said["commit"]
    assert said["date"].count("-") == 2
    assert {"cpu", "cores", "instructions"} <= said["machine"].keys()
    output.write_figures(None, said, [])
    output.write_figures(tmp_path / "x.json", said | {"other": 1}, [{"a": 1}], b=2)
    found = json.loads((tmp_path / "x.json").read_text())
    assert found["rows"] == [{"a": 1}]
    assert found["b"] == 2
    assert "other" not in found["runs"][0]
    assert 0 <= found["runs"][0]["busy"] <= 1


def test_the_command_is_that_which_was_typed() -> None:
    words = ["/bin/python", "-m", "benchmarks.x", "--json", "a", "--figures=b", "--steps", "2"]
    assert output.command_of(words) == "python -m benchmarks.x --steps 2"
    assert measured(Result([output.about()], [], {}), str).startswith("Measured by `python")
