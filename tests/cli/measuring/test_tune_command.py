"""`odtc tune` on the digits, and what `odtc compile` and `odtc db` make of it."""

import io
import json
import shutil
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import odtc
from odtc.autoschedule.tuning import target_records
from odtc.autoschedule.tuning.build import KernelLibrary
from odtc.autoschedule.tuning.database import add, read
from odtc.autoschedule.tuning.measure import MeasureConfig, MeasureInput
from odtc.backends.targets import parse_target
from odtc.cli.main import main
from odtc.cli.measuring.tune import seconds_of
from odtc.core.errors import ExitCode
from odtc.driver.options.step_options import StepOptions
from odtc.driver.preparation import prepare
from odtc.tuner.benches import HostBench
from odtc.tuner.kernel_measurer import KernelMeasurer
from tests.cli.training.digits import BATCH, Digits
from tests.runtime_rpc.own_server import NATIVE, PYTHON, serving
from tests.timed import ratio

STEP = ("--batch", str(BATCH))
QUICK = MeasureConfig(least=1, most=1)
PRODUCTS = {"convolution", "data-gradient", "weight-gradient", "matmul"}


@pytest.fixture(scope="module")
def session(digits: Digits, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A database of a short session, and the lines that this printed."""
    file, out = tmp_path_factory.mktemp("tuned") / "records.jsonl", io.StringIO()
    options = ("--database", str(file), "--trials", "12", "--rounds", "3")
    with redirect_stdout(out):
        assert main(["tune", str(digits.model), *STEP, *options]) == ExitCode.OK
    return file, out.getvalue().splitlines()


@pytest.fixture(scope="module")
def tuned(session: tuple[Path, list[str]]) -> Path:
    """The database."""
    return session[0]


def test_the_tasks_of_a_step_are_listed(digits: Digits, run_json: Any) -> None:
    tasks = run_json("tune", digits.model, *STEP, "--list")["tasks"]
    shares = [task["share"] for task in tasks]
    assert shares == sorted(shares, reverse=True)
    assert 0.5 < sum(shares) < 1
    assert len({task["workload"] for task in tasks}) == len(tasks)
    assert {task["workload"].split("(")[0] for task in tasks} == PRODUCTS


def test_the_parts_of_a_job_are_all_of_it(digits: Digits, run_json: Any) -> None:
    listed = [
        {
            task["workload"]
            for task in run_json("tune", digits.model, *STEP, "--list", *part)["tasks"]
        }
        for part in ((), ("--part", "1/2"), ("--part", "2/2"))
    ]
    whole, *parts = listed
    assert parts[0] | parts[1] == whole
    assert not parts[0] & parts[1]


def test_without_a_linker_nothing_is_kept_as_failed(
    digits: Digits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("odtc.backends.objects.link._CANDIDATES", ())
    file = tmp_path / "records.jsonl"
    assert main(["tune", str(digits.model), *STEP, "--database", str(file)]) == ExitCode.BUILD
    assert not file.exists()


def test_updates_that_share_a_launch_are_no_tasks(digits: Digits, run_json: Any) -> None:
    target = ("--target", "android-opencl")
    tasks = run_json("tune", digits.model, "--batch", "32", *target, "--list")["tasks"]
    assert {task["workload"].split("(")[0] for task in tasks} <= PRODUCTS


def test_a_session_is_recorded_and_goes_on(
    digits: Digits, tuned: Path, run_json: Any, tmp_path: Path
) -> None:
    records = read(tuned).records
    trials = [record for record in records if not record.kept]
    assert len(trials) >= 12
    measured = [record for record in records if not record.reason]
    assert all(len(r.seconds) == len(r.usual) > 0 for r in measured)
    # What is left after a few samples was far from the best.
    best = {r.workload: 1.0 for r in measured}
    for r in measured:
        best[r.workload] = max(best[r.workload], r.gain)
    assert all(r.gain < 0.95 * best[r.workload] for r in measured if len(r.seconds) < 5)
    assert all(len(r.seconds) >= 15 for r in measured if r.kept and r.is_better)
    assert not any(record.reason for record in records)
    assert all(record.modelled > 0 for record in records)
    file = tmp_path / "more.jsonl"
    shutil.copy(tuned, file)
    more = ("--database", file, "--trials", "15", "--rounds", "3")
    found = run_json("tune", digits.model, *STEP, *more)
    assert found["known"] == len(trials)
    assert found["known"] + found["measured"] >= 15
    assert found["stopped"] == "all trials are done"
    assert len(found["step_before"]) == len(found["step_after"]) == 3
    keys = [record.key for record in read(file).records]
    assert len(keys) == len(set(keys))


def better(file: Path, tmp_path: Path) -> Path:
    """A database that says that each last trial was faster than any is measured, and was kept."""
    last = {record.workload: record for record in read(file).records if record.choice}
    found = tmp_path / "better.jsonl"
    kept = [replace(r, seconds=(1.0,), usual=(1000.0,), kept=True) for r in last.values()]
    add(found, kept)
    return found


def test_a_step_is_compiled_with_what_was_measured_and_computes_the_same(
    digits: Digits, tuned: Path, tmp_path: Path
) -> None:
    file = better(tuned, tmp_path)
    x, y = np.random.default_rng(0).random((BATCH, 1, 8, 8), np.float32), np.arange(BATCH) % 10
    losses = {}
    for name, options in {"with": {"database": file}, "without": {"tuned": False}}.items():
        artifact = odtc.compile(digits.model, batch=BATCH, **options)
        trainer = artifact.trainer()
        losses[name] = [trainer.step(x, y, 0.1) for _ in range(5)]
        known = artifact.manifest.tuned
        assert bool(known) == (name == "with")
        assert all(source.startswith("this device, ") for source in known.values())
        said = [note for note in artifact.manifest.notes if "when measured" in note]
        assert len(said) == (name == "with")
    np.testing.assert_allclose(losses["with"], losses["without"], rtol=1e-4)


@pytest.fixture
def shipped(tuned: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside those of this model there are as many records as for a dozen networks."""
    (kept, *_) = records = read(better(tuned, tmp_path)).records
    many = [replace(kept, workload=f"{kept.workload} of another model {n}") for n in range(600)]
    add(tmp_path / "host-cpu" / "shipped.jsonl", [*many, *records])
    monkeypatch.setattr(target_records, "files", lambda _: tmp_path)


def of_shipped(digits: Digits, folder: Path, ships: bool) -> None:
    artifact = odtc.compile(digits.model, batch=BATCH, tuned=ships, database=folder / "none.jsonl")
    assert bool(artifact.manifest.tuned) == ships


@pytest.mark.usefixtures("shipped")
def test_shipped_records_are_found_among_many(digits: Digits, tmp_path: Path) -> None:
    for ships in (False, True):
        of_shipped(digits, tmp_path, ships)


@pytest.mark.timed
@pytest.mark.usefixtures("shipped")
def test_shipped_records_cost_a_compilation_little(digits: Digits, tmp_path: Path) -> None:
    found = ratio(*(lambda s=s: of_shipped(digits, tmp_path, s) for s in (True, False)))
    assert found.median < 1.2, found


def test_records_of_another_number_of_threads_are_left_alone(
    digits: Digits, tuned: Path, tmp_path: Path, run_json: Any
) -> None:
    file, output = better(tuned, tmp_path), tmp_path / "a.odtc"
    argv = ("compile", digits.model, *STEP, "--database", file, "-o", output)
    assert not run_json(*argv, "--target", "host-cpu{threads=7}")["tuned"]
    assert not run_json("inspect", output)["tuned"]


def test_records_are_listed_merged_exported_and_pruned(
    tuned: Path, tmp_path: Path, run_json: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    file, kept = tmp_path / "own.jsonl", better(tuned, tmp_path)
    of = ("--database", str(file))
    assert main(["db", "merge", str(tuned), str(kept), str(tuned), *of]) == ExitCode.OK
    every = len(read(tuned).records) + len(read(kept).records)
    assert len(run_json("db", "list", *of)["records"]) == every
    assert main(["db", "list", *of]) == ExitCode.OK
    assert "1000.00  " in capsys.readouterr().out
    exported = tmp_path / "out.jsonl"
    assert main(["db", "export", str(exported), *of]) == ExitCode.OK
    assert {r.key for r in read(exported).records} == {r.key for r in read(kept).records}
    file.write_text(file.read_text() + '{"torn')
    assert main(["db", "prune", *of]) == ExitCode.OK
    assert "1 damaged lines" in capsys.readouterr().err
    assert all(record.kept for record in read(file).records)


def test_kernels_that_cannot_be_built_or_compute_something_else_have_a_reason(
    digits: Digits,
) -> None:
    from odtc.autoschedule.tuning.tasks import Writer, tasks_of
    from odtc.autoschedule.tuning.tuning import Job

    step = prepare(
        digits.model, parse_target("host-cpu{threads=1}"), StepOptions(batch=4), lambda _: None
    )
    first, *_, last = tasks = tasks_of(*step.kernels)
    writer, bench = Writer(step.source.target), HostBench("llvm", 1)
    with KernelMeasurer(tasks, writer, [bench], cores=0) as measurer:
        jobs = [Job(0, ({"tile": (99, 99)}, {"tasks": (2,)}), QUICK), Job(1, ({},), QUICK)]
        outcomes = dict(measurer.outcomes(jobs))
    impossible, possible = outcomes[0]
    assert impossible.reason.startswith("ValueError: the kernel has no such choice")
    assert len(possible.seconds) == len(possible.usual) == 1
    assert outcomes[1][0].seconds
    assert first.share > last.share


def test_a_library_that_cannot_be_loaded_is_a_failed_trial(tmp_path: Path) -> None:
    (tmp_path / "a.so").write_bytes(b"no library")
    bench = HostBench("llvm", 1)
    try:
        library = KernelLibrary(tmp_path / "a.so", ())
        (outcome,) = bench(MeasureInput(library, (library,), ()), QUICK)
    finally:
        bench.close()
    assert outcome.reason
    assert not outcome.seconds


def test_times_are_read() -> None:
    assert [seconds_of(text) for text in ("7", "90s", "10m", "2h")] == [7, 90, 600, 7200]


def test_the_plain_text_says_what_was_won(
    digits: Digits, session: tuple[Path, list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    lines = session[1]
    assert lines[0].split() == ["product", "tensors", "calls", "trials", "ms", "gain"]
    assert "medians of 3 in turns" in lines[-1]
    assert main(["tune", str(digits.model), *STEP, "--list"]) == ExitCode.OK
    assert "of the step by its model" in capsys.readouterr().out


def test_shipped_records_can_all_be_read() -> None:
    for path in Path(odtc.__file__).parent.glob("tuned/*/*.jsonl"):
        found = read(path)
        assert found.records
        assert not found.damaged
        assert all(record.is_better and record.kept for record in found.records)
        assert len(json.loads(path.read_text().splitlines()[0])) > 5


@pytest.mark.parametrize("server", [NATIVE, pytest.param(PYTHON, marks=pytest.mark.slow)])
def test_a_device_of_either_server_measures_and_runs_what_was_found(
    server: str, digits: Digits, tmp_path: Path, run_json: Any
) -> None:
    file = tmp_path / "records.jsonl"
    with serving(tmp_path / "sessions", server=server) as url:
        options = ("--devices", url, "--database", file, "--trials", "8", "--rounds", "3")
        found = run_json("tune", digits.model, *STEP, *options)
    assert found["measured"] >= 8
    assert len(found["step_before"]) == len(found["step_after"]) == 3
    trials = [record for record in read(file).records if not record.kept]
    assert not any(record.reason for record in trials)
    assert all(len(r.seconds) == len(r.usual) > 0 for r in trials)
