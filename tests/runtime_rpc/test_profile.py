"""Profiles of training steps: what they add up to, what they call things, and their trace."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import odtc
from benchmarks.models.digits import digits_model
from benchmarks.virtual_machine import VirtualMachineHere
from odtc.core.artifact.memory_plan import Kind, MemoryPlan, Origin, PlannedTensor
from odtc.core.errors import DeviceError, UsageError
from odtc.core.specs import TensorSpec
from odtc.runtime_rpc.metrics.samples import Samples, Series
from odtc.runtime_rpc.profile.build import operators_of, runs_of
from odtc.runtime_rpc.profile.record import Move, Phase, Profile, ProfiledOperator, StepCall, Timed
from odtc.runtime_rpc.profile.trace import trace_of, write_trace
from odtc.runtime_rpc.sessions.local import LocalSession
from tests.runtime_rpc.own_server import SERVERS, serving
from tests.runtime_rpc.trace_format import faults
from tests.runtime_rpc.trees import MALI, plant
from tests.timed import ROUNDS, figures

# So many that kernels, not calls of them, take the time.
BATCH = 8192


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "digits.onnx"
    onnx.save(digits_model(), path)
    return path


@pytest.fixture(scope="module")
def artifact(model: Path) -> odtc.Artifact:
    return odtc.compile(model, batch=BATCH, optimizer=odtc.SGD(momentum=0.9))


@pytest.fixture(scope="module", params=SERVERS)
def url(request, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("server") / "sessions"
    with serving(folder, server=request.param) as running:
        yield running


def batch(size: int = BATCH) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    return random.random((size, 1, 8, 8), np.float32), random.integers(10, size=size)


def profiled(trainer: odtc.Trainer, steps: int = 5, size: int = BATCH, **options) -> Profile:
    x, y = batch(size)
    trainer.step(x, y, lr=0.01)
    with trainer.profile(**options) as profiling:
        for _ in range(steps):
            trainer.step(x, y, lr=0.01)
    return profiling.profile


def check(profile: Profile, plan: MemoryPlan, steps: int) -> None:
    """Checks what holds of any profile of one plan."""
    assert [each.kernel for each in profile.operators] == list(plan.calls)
    assert [each.live_bytes for each in profile.operators] == list(plan.live_bytes)
    assert len(profile.steps) == steps
    times = [time for run in all_runs(profile) for time in (run.begin, run.end)]
    assert times == sorted(times)
    for run in all_runs(profile):
        edges = [run.begin, *(t for c in run.calls for t in (c.begin, c.end)), run.end]
        assert edges == sorted(edges)
    assert faults(json.dumps(trace_of(profile))) == []


def all_runs(profile: Profile) -> list[StepCall]:
    return [run for step in profile.steps for run in step]


@pytest.mark.parametrize(
    ("session", "moves"),
    [
        # The native runtime has the batch written to its memory, and returns the loss itself.
        (LocalSession(), {"upload": 10}),
        (VirtualMachineHere(), {"upload": 20, "download": 10}),
    ],
    ids=["native", "tvm"],
)
def test_operators_sum_to_the_step(
    artifact: odtc.Artifact, session: LocalSession, moves: dict[str, int]
) -> None:
    profile = profiled(artifact.trainer(session, threads=1), steps=10)
    check(profile, artifact.memory.plan, steps=10)
    sums = [sum(call.seconds for call in run.calls) for run in all_runs(profile)]
    shares = [s / t for s, t in zip(sums, profile.step_seconds, strict=True)]
    assert np.median(shares) == pytest.approx(profile.coverage)
    # Uploads, what the host sees of the run, and the download follow each other.
    assert Counter(move.kind for move in profile.moves) == moves
    for move in profile.moves:
        assert all(move.end <= run.begin or move.begin >= run.end for run in all_runs(profile))
    assert not profile.emulated


@pytest.mark.timed
def test_operators_take_the_time_of_a_step(artifact: odtc.Artifact) -> None:
    trainer = artifact.trainer(threads=1)
    found = figures(profiled(trainer, steps=10).coverage for _ in range(ROUNDS))
    assert found.median >= 0.95, found


def test_operators_are_called_by_their_nodes(artifact: odtc.Artifact) -> None:
    profile = profiled(artifact.trainer(threads=1), steps=1)
    phases = [each.phase for each in profile.operators]
    assert phases[:5] == [Phase.FORWARD] * 5
    labels = [each.label for each in profile.operators]
    assert labels[0] == "-> relu1, -> conv1"
    updated = [profile.operators[n].nodes for n in profile.of_phase(Phase.UPDATE)]
    parameters = [
        item.spec.name for item in artifact.manifest.arguments if item.role == "parameter"
    ]
    assert sorted(updated) == sorted((name,) for name in parameters)
    weights = {"gradient of conv1.weight", "gradient of -> features"}
    backward = {profile.operators[n].label for n in profile.of_phase(Phase.BACKWARD)}
    assert weights <= backward
    assert sum(map(profile.phase_seconds, Phase)) == pytest.approx(sum(profile.operator_seconds))


def test_a_profiled_step_is_the_same_step(artifact: odtc.Artifact) -> None:
    x, y = batch()
    plain, watched = artifact.trainer(), artifact.trainer()
    expected = [plain.step(x, y, lr=0.1) for _ in range(4)]
    found = [watched.step(x, y, lr=0.1)]
    with watched.profile() as profiling:
        found += [watched.step(x, y, lr=0.1) for _ in range(2)]
    clocked = len(profiling.profile.steps)
    found.append(watched.step(x, y, lr=0.1))
    assert found == expected
    assert clocked == 2


def test_an_evaluation_between_steps_is_no_part_of_them(artifact: odtc.Artifact) -> None:
    x, y = batch()
    trainer = artifact.trainer()
    with trainer.profile() as profiling:
        for _ in range(2):
            trainer.evaluate(x)
            trainer.step(x, y, lr=0.01)
            trainer.evaluate(x)
    check(profiling.profile, artifact.memory.plan, steps=2)


def test_micro_batches_make_a_step(model: Path) -> None:
    artifact = odtc.compile(model, batch=64, micro_batches=4)
    profile = profiled(artifact.trainer(), steps=3, size=64)
    check(profile, artifact.memory.plan, steps=3)
    assert [len(step) for step in profile.steps] == [4, 4, 4]
    seconds = [sum(run.seconds for run in step) for step in profile.steps]
    assert profile.step_seconds == tuple(seconds)


def deep_model(width: int = 32, layers: int = 10) -> onnx.ModelProto:
    """So many tensors wait for the backward pass that plans can keep more or fewer."""
    random = np.random.default_rng(0)
    nodes, weights, last = [], [], "x"
    for number in range(layers):
        weight = 0.3 * random.standard_normal((width, width), np.float32)
        weights.append(numpy_helper.from_array(weight, f"w{number}"))
        nodes.append(helper.make_node("MatMul", [last, f"w{number}"], [f"h{number}"]))
        nodes.append(helper.make_node("Tanh", [f"h{number}"], [last := f"t{number}"]))
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [2048, width])
        for name in ("x", last)
    ]
    graph = helper.make_graph(nodes, "deep", ends[:1], ends[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_each_plan_has_its_operators(tmp_path: Path) -> None:
    onnx.save(deep_model(), tmp_path / "deep.onnx")
    artifact = odtc.compile(tmp_path / "deep.onnx", memory_budget="auto")
    plans = [memory.plan for memory in artifact.memories]
    assert len(plans) > 1
    budgets = [artifact.manifest.budget_of(plan) for plan in artifact.manifest.plans]
    trainer, x = artifact.trainer(), np.ones((2048, 32), np.float32)
    with trainer.profile() as profiling:
        for budget in (budgets[0], budgets[-1], budgets[0]):
            trainer.set_budget(budget)
            trainer.step(x, np.zeros(2048, np.int64), lr=0.01)
    profile = profiling.profile
    first, last = plans[0].calls, plans[-1].calls
    names = [
        [profile.operators[call.operator].kernel for call in run.calls] for run in all_runs(profile)
    ]
    assert names == [list(first), list(last), list(first)]
    assert len(profile.operators) == len(first) + len(last)


def test_a_profile_says_what_is_missing(artifact: odtc.Artifact) -> None:
    trainer = artifact.trainer()

    def take_none() -> None:
        with trainer.profile() as profiling:
            with pytest.raises(UsageError, match="no profile yet"):
                _ = profiling.profile
            with pytest.raises(UsageError, match="profiled already"):
                trainer.profile().__enter__()

    with pytest.raises(UsageError, match="no step was taken"):
        take_none()
    assert profiled(trainer, steps=1).steps


def test_over_rpc_it_is_the_devices_own_time(
    artifact: odtc.Artifact, url: str, tmp_path: Path
) -> None:
    """The same through a server: clocked there, sampled there, and joined by its clock."""
    trainer = artifact.trainer(url)
    profile = profiled(trainer, root=str(plant(MALI, tmp_path)))
    trainer.session.close()
    check(profile, artifact.memory.plan, steps=5)
    assert profile.device == url
    assert profile.samples.fixture
    felt = profile.felt(profile.of_phase(Phase.BACKWARD))
    assert felt["frequency"] == pytest.approx((1804800e3 + 2841600e3) / 2)
    assert felt["gpu"] == 37.0
    assert felt["power"] == pytest.approx(0.812 * 4)
    # Samples are of the time of the steps, and moves were moved onto the device's clock.
    runs = all_runs(profile)
    assert profile.samples.began < runs[0].begin < runs[-1].end < profile.samples.ended
    assert sum(move.end <= runs[0].end for move in profile.moves) <= 3


@pytest.mark.timed
def test_a_step_there_is_covered_and_leaves_the_sampler_its_time(
    artifact: odtc.Artifact, url: str, tmp_path: Path
) -> None:
    trainer = artifact.trainer(url)
    profile = profiled(trainer, steps=20, root=str(plant(MALI, tmp_path)))
    trainer.session.close()
    assert profile.coverage >= 0.95
    times = profile.samples.series["battery.current"].times
    rates = figures(
        sum(run.begin < time < run.end for time in times) / (run.end - run.begin)
        for run in all_runs(profile)
    )
    assert rates.median > 0.3 / profile.samples.period, rates


def test_a_stock_server_says_that_it_cannot_measure(artifact: odtc.Artifact) -> None:
    from tvm import rpc

    from odtc.runtime_rpc.sessions.remote import RemoteSession

    # A session in this process, with TVM's own functions.
    session = RemoteSession("stock", rpc.LocalSession())
    with pytest.raises(DeviceError, match="TVM's RPC server cannot be measured"):
        artifact.trainer(session).profile().__enter__()


def tensor(name: str, kind: Kind, first: int, last: int, *origins: Origin) -> PlannedTensor:
    return PlannedTensor(TensorSpec(name, (2,), "float32"), kind, 0, first, last, origins)


def test_phases_follow_from_what_calls_write() -> None:
    gradient = Origin("", "w", gradient=True)
    plan = MemoryPlan(
        calls=("conv", "loss", "slope", "mean", "again", "weight", "norm", "update"),
        backward=2,
        tensors=(
            tensor("a", Kind.SAVED, 0, 3, Origin("conv", "y")),
            tensor("l", Kind.ACTIVATION, 1, 3, Origin("loss")),
            tensor("s", Kind.GRADIENT, 2, 5, Origin("conv", "y", gradient=True)),
            tensor("b", Kind.ACTIVATION, 4, 5, Origin("conv", "y")),
            tensor("g", Kind.PARAMETER_GRADIENT, 5, 7, gradient),
            tensor("n", Kind.OTHER, 6, 7),
        ),
        arena_bytes=8,
        lower_bound_bytes=8,
        result_bytes=4,
    )
    operators = operators_of(plan)
    forward, backward, update = Phase
    expected = [forward, forward, backward, forward, backward, backward, update, update]
    assert [each.phase for each in operators] == expected
    labels = [each.label for each in operators]
    assert labels[:4] == ["conv", "loss", "gradient of conv", "conv, loss"]
    assert labels[4:] == ["conv", "gradient of w", "norm", "w"]


def test_other_kernels_are_no_run() -> None:
    check_, alloc = "vm.builtin.check_tensor_info", "vm.builtin.alloc_storage"
    events = [
        *((name, t, t + 0.5) for t, name in enumerate((check_, check_, alloc, "a", alloc, "b"))),
        *((name, t + 10, t + 10.5) for t, name in enumerate((alloc, check_, "e", check_, "a"))),
        ("b", 20.0, 21.0),
    ]
    runs = runs_of(events, [(0, ("a", "b"))] * 2, "here")
    assert [(run.begin, run.end) for run in runs] == [(0, 5.5), (13, 21)]
    assert [call.operator for call in runs[1].calls] == [0, 1]
    with pytest.raises(DeviceError, match="5 kernels were clocked"):
        runs_of(events, [(0, ("a", "b"))] * 3, "here")


@pytest.fixture
def drawn() -> Profile:
    """A profile by hand: two steps of two operators, over samples at every second."""
    times = (0.0, 1.0, 2.0, 3.0, 4.0)
    samples = Samples(
        0.0,
        4.0,
        {
            "cpu0.utilization": Series(times, (0.0, 10.0, 20.0, 30.0, 40.0)),
            "cpu0.frequency": Series(times, (1e9,) * 5),
            "battery.current": Series(times, (1.0,) * 5),
            "battery.voltage": Series(times, (4.0,) * 5),
        },
        fixture=True,
        emulated=True,
    )
    runs = [
        StepCall(at, at + 1.0, (Timed(0, at + 0.1, at + 0.5), Timed(1, at + 0.5, at + 0.9)))
        for at in (0.5, 2.5)
    ]
    return Profile(
        "m.onnx",
        "phone",
        (
            ProfiledOperator("conv", Phase.FORWARD, ("a", "b"), 64),
            ProfiledOperator("update", Phase.UPDATE, (), 32),
        ),
        tuple((run,) for run in runs),
        (Move("upload", 0.1, 0.3), Move("download", 3.6, 3.8)),
        samples,
        parameter_bytes=100,
        optimizer_bytes=200,
    )


def test_what_was_felt_is_joined_by_time(drawn: Profile) -> None:
    # 0.6 to 1.0 at 10 %, and 2.6 to 3.0 at 30 %.
    assert drawn.felt([0]) == pytest.approx({"utilization": 20.0, "frequency": 1e9, "power": 4.0})
    # 1.0 to 1.4 at 20 %, and 3.0 to 3.4 at 40 %.
    assert drawn.felt([1])["utilization"] == pytest.approx(30.0)
    assert drawn.operator_seconds == pytest.approx((0.4, 0.4))
    assert drawn.coverage == pytest.approx(0.8)
    assert drawn.peak_bytes == 64
    assert drawn.moved_seconds("upload") == pytest.approx(0.1)


def test_a_trace_says_what_it_is_of(drawn: Profile, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    write_trace(drawn, path)
    assert faults(path.read_text()) == []
    trace = json.loads(path.read_text())
    assert trace["otherData"] == {
        "model": "m.onnx",
        "device": "phone",
        "emulated": True,
        "fixture": True,
    }
    events = trace["traceEvents"]
    names = [e["args"]["name"] for e in events if e["name"] == "process_name"]
    assert names[0] == "phone (emulated, not a measurement)"
    assert "fixture" in names[2]
    complete = {(e["name"], e["ts"], e["dur"]) for e in events if e["ph"] == "X"}
    assert ("a, b", 600000.0, 400000.0) in complete
    assert ("step 1", 2500000.0, 1000000.0) in complete
    counters = Counter(e["name"] for e in events if e["ph"] == "C")
    assert counters["cpu0 utilization, %"] == counters["power, W"] == 4


@pytest.mark.parametrize(
    ("event", "fault"),
    [
        ({"name": "a", "ph": "X", "ts": 1, "pid": 1, "tid": 1}, "no dur"),
        ({"name": "a", "ph": "X", "ts": 1, "dur": -1, "pid": 1, "tid": 1}, "dur is -1"),
        ({"name": "a", "ph": "X", "ts": 5, "dur": 9, "pid": 1, "tid": 1}, "crosses"),
        ({"name": "a", "ph": "C", "ts": 1, "pid": 1, "tid": 0, "args": {"v": "NaN"}}, "counter a"),
        ({"name": "a", "ph": "Q", "pid": 1, "tid": 1}, "phase 'Q'"),
        ({"name": "a", "ph": "X", "ts": 1, "dur": 1, "pid": 7, "tid": 1}, "has no name"),
    ],
)
def test_the_check_of_traces_finds_faults(event: dict, fault: str) -> None:
    other = [
        {"name": "process_name", "ph": "M", "pid": 1, "tid": 0, "args": {"name": "p"}},
        {"name": "b", "ph": "X", "ts": 0, "dur": 10, "pid": 1, "tid": 1},
    ]
    assert faults(json.dumps({"traceEvents": other})) == []
    assert any(fault in one for one in faults(json.dumps({"traceEvents": [*other, event]})))
