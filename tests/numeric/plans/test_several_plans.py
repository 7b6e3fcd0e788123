"""Steps by several plans: the same bits by each, and never more memory than there is."""

import random
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, save

import odtc
from benchmarks.models.pytorch.export import export
from benchmarks.models.pytorch.spec import batches, make
from benchmarks.models.pytorch.table import SMALL
from odtc.artifact import Artifact
from odtc.cli.main import main
from odtc.core.errors import BudgetError, ExitCode
from tests.fast import fast_if
from tests.mlp import mlp
from tests.runtime_rpc.hostile_peers.at_once import AtOnce, failing_behind

STEPS = 60
Batch = tuple[np.ndarray, np.ndarray]
# An optimizer with a state, whose gradients add up over two steps, and averages.
UPDATE = odtc.Update(odtc.AdamW(), accumulate=2, ema=0.9)


NAMES = ["char_cnn_lstm", "resnet18", "bert_base"]


@pytest.fixture(scope="module", params=fast_if(lambda name: name == "resnet18", NAMES))
def compiled(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Artifact, list[Batch], list[float]]:
    """A small model with several plans, batches, and the losses of an undisturbed run."""
    model = SMALL[request.param]
    path = tmp_path_factory.mktemp("plans") / "model.onnx"
    data = [batch for batch, _ in zip(batches(model), range(STEPS), strict=False)]
    export(make(model), data[0][0], path)
    artifact = odtc.compile(
        path, batch=model.batch, loss=model.loss, optimizer=UPDATE, memory_budget="auto"
    )
    alone = odtc.compile(path, batch=model.batch, loss=model.loss, optimizer=UPDATE).trainer()
    return artifact, data, [alone.step(x, y, lr=1e-3) for x, y in data]


def test_plans_fall_in_bytes_and_rise_in_time(compiled) -> None:
    artifact = compiled[0]
    plans = artifact.manifest.plans
    assert 3 <= len(plans) <= 5
    assert plans[0].time == 1
    for one, other in pairwise(plans):
        assert one.arena_bytes > other.arena_bytes
        assert one.time < other.time
    for plan, memory in zip(plans, artifact.memories, strict=True):
        assert plan.arena_bytes == memory.arena_bytes


def test_a_step_that_has_one_plan_says_so(tmp_path: Path) -> None:
    save(mlp(6, 5, 3), tmp_path / "m.onnx")
    artifact = odtc.compile(tmp_path / "m.onnx", batch=4, memory_budget="auto")
    (plan,) = artifact.manifest.plans
    note = f"one plan, of {plan.arena_bytes:,} bytes: no other one takes fewer"
    assert note in artifact.manifest.notes


def test_a_budget_that_goes_up_and_down_changes_no_bit(compiled) -> None:
    artifact, data, losses = compiled
    trainer, budgets = artifact.trainer(), random.Random(0)
    plans, taken, found = artifact.manifest.plans, set(), []
    for x, y in data:
        # Plans may lie close to each other: of two budgets one is near to one of them.
        between = budgets.randint(plans[-1].arena_bytes, plans[0].arena_bytes)
        near = budgets.choice(plans).arena_bytes + budgets.randint(0, 64)
        budget = budgets.choice([between, near])
        trainer.set_budget(budget)
        assert trainer.plan.arena_bytes <= budget
        taken.add(trainer.plan)
        found.append(trainer.step(x, y, lr=1e-3))
    assert found == losses
    assert len(taken) > 2


def test_memory_that_goes_up_and_down_changes_no_bit(compiled) -> None:
    artifact, data, losses = compiled
    trainer, memory = artifact.trainer(), random.Random(0)
    plans, taken, found = artifact.manifest.plans, [], []
    left = plans[0].arena_bytes
    trainer.follow_memory("1B", lambda: left)
    for number, (x, y) in enumerate(data):
        if number % 6 == 0:
            left = memory.choice(plans).arena_bytes
        found.append(trainer.step(x, y, lr=1e-3))
        taken.append(trainer.plan)
    assert found == losses
    assert len(set(taken)) > 1


@pytest.mark.parametrize("steps", [0, 2])
def test_the_rest_of_a_call_is_taken_by_a_smaller_plan(compiled, steps: int) -> None:
    artifact, data, losses = compiled
    trainer = artifact.trainer(AtOnce(run=failing_behind(steps, "std::bad_alloc")))
    assert list(trainer.train(data[:5], 1e-3, steps_per_call=5)) == losses[:5]
    assert trainer.plan == artifact.manifest.plans[1]


def test_a_checkpoint_does_not_know_of_plans(compiled, tmp_path: Path) -> None:
    artifact, data, losses = compiled
    first, second = artifact.trainer(), artifact.trainer()
    first.set_budget(artifact.manifest.plans[-1].arena_bytes)
    found = [first.step(x, y, lr=1e-3) for x, y in data[:3]]
    first.save_checkpoint(tmp_path / "checkpoint")
    second.load_checkpoint(tmp_path / "checkpoint")
    found += [second.step(x, y, lr=1e-3) for x, y in data[3:6]]
    assert found == losses[:6]


def test_below_the_smallest_plan(compiled) -> None:
    trainer = compiled[0].trainer()
    least = compiled[0].manifest.plans[-1].arena_bytes
    trainer.set_budget(least)
    text = f"at least {least:,} bytes .*; the budget is {least - 1:,}"
    with pytest.raises(BudgetError, match=text) as one:
        trainer.set_budget(least - 1)
    assert one.value.least == least
    assert trainer.plan.arena_bytes == least


WIDE = 6


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An artifact whose plans lie tens of megabytes apart."""
    rng = np.random.default_rng(0)
    weights = [rng.uniform(-0.3, 0.3, (8, 8, 3, 3)).astype(np.float32) for _ in range(WIDE)]
    nodes, last = [], "x"
    for number in range(WIDE):
        conv = helper.make_node("Conv", [last, f"w{number}"], [f"c{number}"], pads=[1, 1, 1, 1])
        last = f"t{number}"
        nodes += [conv, helper.make_node("Tanh", [f"c{number}"], [last])]
    nodes += [
        helper.make_node("GlobalAveragePool", [last], ["p"]),
        helper.make_node("Flatten", ["p"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "wide",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 8, 192, 192])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 8])],
        [numpy_helper.from_array(each, f"w{number}") for number, each in enumerate(weights)],
    )
    folder = tmp_path_factory.mktemp("wide")
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), folder / "m.onnx")
    odtc.compile(folder / "m.onnx", memory_budget="auto").save(folder / "wide.odtc")
    x = rng.standard_normal((8, 8, 192, 192)).astype(np.float32)
    np.savez(folder / "data.npz", x=x, y=np.arange(8) % 8)
    return folder


LIMITED = """
import resource, sys
import numpy as np
import odtc
from odtc.core.errors import DeviceError
from odtc.runtime_rpc.free_memory import _field, _PROC

def limit(room):
    size = _field(_PROC / "self" / "status", "VmSize")
    resource.setrlimit(resource.RLIMIT_AS, (size + round(room), resource.RLIM_INFINITY))

artifact = odtc.load(sys.argv[1])
data = np.load(sys.argv[2])
batches = [(data["x"][i : i + 4], data["y"][i : i + 4]) for i in (0, 4)] * 3
plans = artifact.manifest.plans
alone = artifact.trainer(threads=1)
losses = [alone.step(x, y, lr=0.1) for x, y in batches]
trainer = artifact.trainer(threads=1)
"""

FAILED = """
# Room for the smallest plan, and for little beside it; then for none.
last = artifact.trainer(threads=1)
limit(plans[-1].arena_bytes + (4 << 20))
found = [trainer.step(x, y, lr=0.1) for x, y in batches]
assert found == losses, (found, losses)
assert trainer.plan == plans[-1], trainer.plan
limit(4 << 20)
try:
    last.step(*batches[0], lr=0.1)
except DeviceError as error:
    assert f"{plans[-1].arena_bytes:,} bytes" in str(error), error
else:
    raise AssertionError("there was memory")
"""

AT_ONCE = """
# The same where all steps are one call: there is room for what they are fed, too.
from tests.runtime_rpc.hostile_peers.at_once import AtOnce
trainer = artifact.trainer(AtOnce(), threads=1)
trainer.set_budget(plans[-1].arena_bytes)
list(trainer.train(batches, 0.0, len(batches)))
limit(sum(x.nbytes for x, _ in batches) + (4 << 20))
trainer.set_budget(plans[0].arena_bytes)
found = list(trainer.train(batches, 0.1, len(batches)))
assert found == losses, (found, losses)
assert trainer.plan == plans[-1], trainer.plan
"""

PRESSED = """
# Another user of the memory comes and goes.
limit(plans[0].arena_bytes + (160 << 20))
trainer.follow_memory("16MiB")
found, taken, ballast = [], [], None
for number in range(60):
    if number in (5, 30):
        ballast = np.empty(plans[0].arena_bytes - plans[-1].arena_bytes + (136 << 20), np.uint8)
    if number in (15, 45):
        ballast = None
    found.append(trainer.step(*batches[number % len(batches)], lr=0.0))
    taken.append(plans.index(trainer.plan))
assert [min(taken[number], 1) for number in (4, 10, 25, 35, 59)] == [0, 1, 0, 1, 0], taken
"""


@pytest.mark.parametrize("script", [FAILED, AT_ONCE, PRESSED], ids=["failed", "at once", "pressed"])
def test_with_little_memory(wide: Path, script: str) -> None:
    """In a process of its own, under `ulimit -v`: no step fails, and no bit changes."""
    done = subprocess.run(
        [sys.executable, "-c", LIMITED + script, wide / "wide.odtc", wide / "data.npz"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_on_the_command_line(wide: Path, capsys: pytest.CaptureFixture[str]) -> None:
    artifact = odtc.load(wide / "wide.odtc")
    least = artifact.manifest.plans[-1].arena_bytes
    train = ["train", str(wide / "wide.odtc"), "--data", str(wide / "data.npz"), "--lr", "0.1"]
    losses = []
    for more in ([], ["--memory-budget", str(least)], ["--follow-memory"]):
        assert main([*train, *more, "--json"]) == ExitCode.OK
        losses.append(capsys.readouterr().out.split('"loss": ')[1].split(",")[0])
    assert len(set(losses)) == 1
    assert main([*train, "--memory-budget", str(least - 1)]) == ExitCode.BUDGET
    assert f"at least {least:,} bytes" in capsys.readouterr().err
    assert main(["inspect", str(wide / "wide.odtc")]) == ExitCode.OK
    shown = capsys.readouterr().out
    assert all(f"({plan.arena_bytes:,} bytes)" in shown for plan in artifact.manifest.plans)
