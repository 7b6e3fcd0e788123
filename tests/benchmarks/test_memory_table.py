"""The table of memory: how it is measured, what TVM would plan, and all engines on a network."""

import json
from multiprocessing import get_context

import numpy as np
import pytest
from tvm import relax
from tvm.relax.op import call_tir_inplace
from tvm.script import tirx as T  # noqa: N812

from benchmarks.memory import __main__ as command_line
from benchmarks.memory import rows as making
from benchmarks.memory import speed, worker
from benchmarks.memory.cases import NETWORKS
from benchmarks.memory.planned import PlannedBytes, TvmPlan
from benchmarks.memory.report import draw, loss_table, peer_table, plan_table, summary
from benchmarks.memory.rows import (
    ALONE,
    ENGINES,
    ORT,
    OURS,
    TORCH,
    TVM,
    MemoryRow,
    MemoryTerms,
    measured_row,
)
from benchmarks.memory.tvm_planner import NewParameters, as_relax_training, planned_by_tvm
from benchmarks.memory.worker import TaskError, run
from odtc.backends import lowering
from odtc.backends.built import storage_bytes
from odtc.backends.families import family_of
from odtc.backends.family.family import Family
from odtc.backends.kernels.common import parsed
from odtc.backends.pipeline.phases import plan_phase
from odtc.backends.targets import parse_target
from odtc.comparison.measures.resident import Sample, measured
from odtc.passes.contract import run_pipeline
from tests.passes.memory.assigning import assign_kernel

MB = 1_000_000


def run_main(main, monkeypatch, *options):
    monkeypatch.setattr("sys.argv", ["memory", *map(str, options)])
    return main()


@pytest.mark.slow
def test_a_network_goes_through_all_engines(tmp_path, monkeypatch, capsys):
    files = ("--json", tmp_path / "new" / "x.json", "--picture", tmp_path / "x.svg")
    options = ("--networks", "digits", "--runs", 1, *files)
    assert run_main(command_line.main, monkeypatch, *options) == 0
    (row,) = json.loads((tmp_path / "new" / "x.json").read_text())["networks"]
    assert row["failures"] == {}
    plan, tvm_plan = row["plan"], row["tvm"]
    assert plan["lower_bound"] == plan["arena"] <= tvm_plan["alone"] < tvm_plan["new_parameters"]
    # It makes a new tensor for each parameter, and for nothing else that is as large.
    assert tvm_plan["new_parameters"] > plan["parameters"]
    samples = {name: found[0] for name, found in row["samples"].items()}
    assert list(samples) == [OURS, ORT, TORCH]
    for sample in samples.values():
        np.testing.assert_allclose(sample["losses"], samples[OURS]["losses"], rtol=1e-4)
        assert sample["imported"] < sample["ready"] <= sample["peak"]
    ours = samples[OURS]
    assert plan["arena"] < ours["peak"] - ours["imported"] < 4 * MB
    assert "digits: torch" in capsys.readouterr().out
    assert "</svg>" in (tmp_path / "x.svg").read_text()


def test_both_planners_take_turns(tmp_path, monkeypatch, capsys):
    files = ("--json", tmp_path / "x.json", "--picture", tmp_path / "x.svg")
    options = ("--networks", "digits", "--steps", 2, *files)
    assert run_main(speed.main, monkeypatch, *options) == 0
    (item,) = json.loads((tmp_path / "x.json").read_text())["comparisons"]
    assert [len(timing["seconds"]) for timing in item["timings"]] == [2, 2]
    assert "geometric mean of 1 networks" in capsys.readouterr().out


def sampled() -> Sample:
    """A step that takes a third of the memory, an engine that holds two thirds."""
    kept = []

    def make():
        assert np.ones(30 * MB, np.uint8).sum()
        kept.append(np.ones(20 * MB, np.uint8))

        def step():
            return np.ones(10 * MB, np.uint8)[0]

        return step

    return measured(make, 2)


def test_a_peak_is_that_of_the_steps():
    """Memory freed before the first step does not count; memory held does."""
    # A process of its own: here, what other tests left would be given back meanwhile.
    with get_context("spawn").Pool(1) as pool:
        sample = pool.apply(sampled)
    assert sample.net == pytest.approx(30 * MB, abs=2 * MB)
    assert sample.ready - sample.imported == pytest.approx(20 * MB, abs=2 * MB)
    assert sample.losses == [1.0, 1.0]
    assert 0 <= sample.files < MB


@parsed.prim_func(private=True, s_tir=True)
def double(x: T.Buffer((1024,), "float32"), y: T.Buffer((1024,), "float32")) -> None:
    for i in range(1024):
        with T.sblock("double"):
            at = T.axis.spatial(1024, i)
            y[at] = x[at] * T.float32(2)


def step_in_place():
    """A step that changes its parameter, and a tensor of its own."""
    parameter = relax.Var("w", relax.TensorType((1024,), "float32"))
    builder = relax.BlockBuilder()
    kernel, assign = (
        builder.add_func(function, name)
        for function, name in ((double, "double"), (assign_kernel((1024,)), "assign"))
    )
    with builder.function("train_step", [parameter]):
        twice = builder.emit(relax.call_tir(kernel, relax.Tuple([parameter]), parameter.ty))
        results = [
            builder.emit(call_tir_inplace(assign, relax.Tuple(list(pair)), [0], [parameter.ty]))
            for pair in ((twice, parameter), (parameter, twice))
        ]
        builder.emit_func_output(relax.Tuple(results))
    return builder.finalize()


def host() -> Family:
    return family_of(parse_target("host-cpu{threads=2}").resolved())


def test_only_parameters_become_new_tensors():
    module = step_in_place()
    text = NewParameters("train_step").run(module)["train_step"].script()
    assert text.count("call_dps_packed(") == 1
    assert text.count("call_tir_inplace(") == 1
    planned = run_pipeline(
        as_relax_training(plan_phase("train_step", host()), "train_step"), module
    )
    # The tensor of its own, which is returned too, and the new parameter.
    assert storage_bytes(planned)["train_step"] == 2 * 4096


def test_the_planner_is_odtc_s_again_afterwards():
    before = lowering.plan_phase
    with planned_by_tvm():
        assert "tvm.StaticPlanBlockMemory" in map(str, lowering.plan_phase("train_step", host()))
        assert "take-offsets" not in map(str, lowering.plan_phase("train_step", host()))
    assert lowering.plan_phase is before


def sample(net, loss=1.0):
    return Sample(100 * MB, 100 * MB, 100 * MB + net, [loss] * 3, MB)


def full_row(name="a"):
    plan = PlannedBytes(60 * MB, 60 * MB, 30 * MB, 10 * MB, MB)
    nets = {OURS: [102, 104, 103], ORT: [200, 400, 250], TORCH: [400, 400, 400]}
    samples = {engine: [sample(net * MB) for net in found] for engine, found in nets.items()}
    return MemoryRow(name, 4, plan, TvmPlan(160 * MB, 85 * MB), samples)


def test_ratios_are_of_the_total_to_medians():
    row = full_row()
    assert row.plan.total == 100 * MB
    assert [row.ratio(name) for name in (TVM, ALONE, ORT, TORCH)] == [0.5, 0.8, 0.4, 0.25]
    lines = summary([row, MemoryRow("b", 4, failures={OURS: "why"})])
    assert lines[0].startswith("total by TVM: 0.500 in the geometric mean of 1 networks")
    assert "by 2.0 to 2.0 MB more than total and batch; 1 of 1 within 3 MB" in lines[-1]


def test_what_is_missing_is_left_out(tmp_path):
    rows = [
        full_row(),
        MemoryRow("b", 4, failures={OURS: "why"}),
        MemoryRow("c", 4, full_row().plan),
    ]
    rows[1].samples[TORCH] = [sample(5 * MB, 0.5)]
    cells = [list(column.cells) for column in peer_table(rows).columns]
    assert cells[1] == ["100.0", "", "100.0"]
    assert cells[-1] == ["400.0 (0.25)", "5.0", ""]
    assert list(plan_table(rows).columns[1].cells) == ["60.0", "failed", "60.0"]
    assert list(loss_table(rows).columns[-1].cells) == ["1.00000", "0.50000", ""]
    draw(rows, "a machine", tmp_path / "new" / "x.svg")
    assert "</svg>" in (tmp_path / "new" / "x.svg").read_text()


def test_a_task_that_fails_is_one_engine_s(tmp_path, monkeypatch):
    def task(name, folder, threads, *arguments):
        told.append(name)
        if name == "write-onnxruntime":
            raise TaskError("no operator X")
        return vars(sample(MB)) if name == "torch" else None

    told = []
    monkeypatch.setattr(making, "run", task)
    row = measured_row("digits", [OURS, ORT, TORCH], MemoryTerms(4, 1, 2), tmp_path, told.append)
    assert row.failures == {ORT: "no operator X"}
    assert "onnxruntime" not in told
    assert len(row.samples[TORCH]) == 2


def test_a_process_says_why_it_failed(tmp_path, monkeypatch):
    with pytest.raises(TaskError, match="ValueError: no zoo model 'x'"):
        run("store", tmp_path, 1, "zoo/x", "4", "1")
    monkeypatch.setattr(worker, "_SECONDS", 0.01)
    with pytest.raises(TaskError, match=r"it took more than 0.01 s"):
        run("store", tmp_path, 1, "zoo/x", "4", "1")


def test_names_on_the_command_line(capsys):
    parse = command_line._parser().parse_args
    assert parse([]).networks == list(NETWORKS)
    assert len(NETWORKS) == 13
    assert parse([]).engines == list(ENGINES)
    assert parse(["--engines", "pytorch"]).engines == [OURS, TORCH]
    with pytest.raises(SystemExit):
        parse(["--networks", "zoo/x"])
    assert "no network 'zoo/x'" in capsys.readouterr().err
