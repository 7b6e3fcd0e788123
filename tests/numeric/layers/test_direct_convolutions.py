"""Within a budget that workspaces of Winograd's form do not fit, convolutions are direct."""

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
import pytest

import odtc
from benchmarks.models.digits import digits_model
from odtc.artifact import Artifact
from odtc.backends.built import tuned_kernels, winograd_kernels
from odtc.backends.decisions import TunedChoice
from odtc.backends.lowering import to_kernels
from odtc.backends.targets import parse_target
from odtc.cli.main import main
from odtc.core.errors import BudgetError
from odtc.core.ir.product_marks import WORKLOAD
from odtc.driver.frontier import Frontier
from odtc.driver.options.step_options import StepOptions
from odtc.driver.preparation import prepare
from odtc.driver.sealed.notes import DIRECT_CONVOLUTIONS

# One thread: each has a workspace of its own.
TARGET, BATCH = "host-cpu{threads=1}", 4


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network for images of 8 x 8 pixels, whose second convolution takes most bytes."""
    path = tmp_path_factory.mktemp("direct") / "digits.onnx"
    onnx.save(digits_model(), path)
    return path


@pytest.fixture(scope="module")
def found(digits: Path) -> Frontier:
    return odtc.plan(digits, TARGET, batch=BATCH, micro_batches=1)


def compiled(path: Path, budget: int | None) -> Artifact:
    return odtc.compile(path, TARGET, batch=BATCH, micro_batches=1, memory_budget=budget)


def changes(artifact: Artifact) -> tuple[list[float], dict[str, np.ndarray]]:
    """Losses of three steps, and what they add to the weights."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((BATCH, 1, 8, 8)).astype(np.float32)
    trainer = artifact.trainer(threads=1)
    before = trainer.parameters()
    losses = [trainer.step(x, np.arange(BATCH), lr=0.1) for _ in range(3)]
    after = trainer.parameters()
    return losses, {name: after[name] - value for name, value in before.items()}


def test_a_step_fits_that_only_direct_convolutions_do(digits: Path, found: Frontier) -> None:
    least = found.points[-1].budget_bytes
    usual = min(each.budget_bytes for each in found.points if not each.direct)
    # What the whole took before there was any other form than the direct one.
    assert least <= 160_000 < usual
    direct, whole = compiled(digits, usual - 1), compiled(digits, usual)
    assert direct.memory.arena_bytes < usual
    assert DIRECT_CONVOLUTIONS in direct.manifest.notes
    assert not any("in Winograd's form:" in note for note in direct.manifest.notes)
    assert DIRECT_CONVOLUTIONS not in whole.manifest.notes
    (losses, expected), (rounded, added) = changes(whole), changes(direct)
    np.testing.assert_allclose(rounded, losses, rtol=1e-5)
    for name, value in expected.items():
        np.testing.assert_allclose(added[name], value, rtol=1e-3, atol=1e-6, err_msg=name)
    # Of another form, and so not of the same bits.
    assert any((added[name] != value).any() for name, value in expected.items())


def test_the_least_is_right(digits: Path, found: Frontier) -> None:
    least = found.points[-1].budget_bytes
    assert compiled(digits, least).memory.arena_bytes == least
    with pytest.raises(BudgetError, match=f"at least {least:,} bytes"):
        compiled(digits, least - 1)


def test_kernels_are_the_usual_ones_where_these_fit(digits: Path, found: Frontier) -> None:
    first = found.points[0]
    assert not first.direct
    whole, same = compiled(digits, None), compiled(digits, first.budget_bytes)
    assert same.memory.plan.calls == whole.memory.plan.calls


def test_plans_say_so(
    digits: Path, found: Frontier, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert {each.direct for each in found.points} == {False, True}
    for more, less in pairwise(found.points):
        assert less.time >= more.time
        assert less.budget_bytes < more.budget_bytes
    picture = tmp_path / "plans.svg"
    command = ["plan", str(digits), "--target", TARGET, "--batch", str(BATCH)]
    command += ["--micro-batches", "1", "--plot", str(picture)]
    assert main(command) == 0
    title, *_, last = capsys.readouterr().out.splitlines()
    assert title.endswith("convolutions")
    assert last.endswith("direct")
    assert "direct convolutions" in picture.read_text()
    assert main([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["points"][-1]["direct"]


def test_a_record_of_the_other_form_is_not_taken(digits: Path) -> None:
    step = prepare(digits, parse_target(TARGET), StepOptions(batch=BATCH), lambda _: None)
    asked = []

    def records(workload: str) -> TunedChoice:
        asked.append(workload)
        return TunedChoice({"form": (1,)}, "a record")

    usual, direct = (to_kernels(*step.kernels, records=records, direct=d) for d in (False, True))
    patches = winograd_kernels(usual)
    assert patches
    assert set(patches) <= set(tuned_kernels(usual))
    assert not winograd_kernels(direct)
    known = {
        function.attrs[WORKLOAD]
        for _, function in direct.functions_items()
        if WORKLOAD in (function.attrs or {})
    }
    # Their times were measured in the form that they do not have.
    assert not known & {usual[name].attrs[WORKLOAD] for name in patches}
    assert not set(tuned_kernels(direct)) & set(patches)
    assert known
