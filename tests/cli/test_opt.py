"""`odtc opt`, and what `odtc compile` prints between passes: modules as they are compiled."""

import json
import re
import time
from pathlib import Path

import onnx
import pytest
import tvm

from odtc.autoschedule.table import schedule_passes
from odtc.backends.families import family_of
from odtc.backends.pipeline.options import PipelineOptions
from odtc.backends.pipeline.phases import pipeline_of
from odtc.backends.targets import parse_target
from odtc.cli.main import main
from odtc.core.disk.package_files import COARSE_NS
from odtc.core.errors import ExitCode
from odtc.frontend.training import TRAIN_STEP
from odtc.passes.pipeline.text import pipeline_text
from odtc.step_cache.store import step_store
from tests.mlp import mlp

_HEADING = re.compile(r"^# -----// IR Dump After (\S+) //----- #$", re.M)
TARGET = ["--target", "host-cpu{threads=2}"]


@pytest.fixture
def model(here: Path) -> str:
    onnx.save(mlp(6, 5, 3), "m.onnx")
    return "m.onnx"


@pytest.fixture
def kept(
    model: str, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cache that keeps steps, and a model that is old enough for it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    # A file may change again within the time that the file system counts in.
    time.sleep(2 * COARSE_NS / 1e9)


def ran(capsys: pytest.CaptureFixture[str], *argv: str, code: int = ExitCode.OK) -> tuple[str, str]:
    """The output of a command on stdout and on stderr."""
    capsys.readouterr()
    assert main([*argv]) == code
    found = capsys.readouterr()
    return found.out, found.err


@pytest.mark.parametrize("target", ["host-cpu{threads=2}", "android-vulkan"])
def test_the_passes_of_a_target_are_listed(target: str, capsys, run_json) -> None:
    resolved = parse_target(target).resolved()
    of = PipelineOptions(family_of(resolved), TRAIN_STEP, schedule=schedule_passes(resolved))
    rows = run_json("opt", "--list", "--target", target)
    assert ",".join(row["pass"] for row in rows) == pipeline_text(pipeline_of(of))
    assert all(row["description"] for row in rows)
    out, _ = ran(capsys, "opt", "--list", "--target", target)
    assert [line.split()[0] for line in out.splitlines()] == [row["pass"] for row in rows]


def test_options_of_the_step_change_the_list(run_json) -> None:
    half = run_json("opt", "--list", "--precision", "mixed")
    assert any(row["pass"].startswith("half-storage{least=1024,") for row in half)
    cut = run_json("opt", "--list", "--stop-after", "legalize")
    assert cut[-1]["pass"] == "legalize{stay=true}"
    few = run_json("opt", "--list", "--passes", " join-reshapes, tvm.FuseTIR ")
    assert [row["pass"] for row in few] == ["join-reshapes", "tvm.FuseTIR"]


def test_passes_run_and_the_module_is_printed(model: str, capsys) -> None:
    before, _ = ran(capsys, "opt", model, "--passes", "tvm.Normalize")
    assert "R.permute_dims" in before
    after, told = ran(capsys, "opt", model, "--passes", "absorb-transpose")
    assert "R.permute_dims" not in after
    assert not _HEADING.findall(told)
    # Nothing of it says where it was printed: it is a module that TVM reads.
    assert TRAIN_STEP in {v.name_hint for v in tvm.script.from_source(after).get_global_vars()}
    out, _ = ran(capsys, "opt", model, "--passes", "absorb-transpose", "-o", "ir.txt")
    assert out == "ir.txt\n"
    assert Path("ir.txt").read_text() == after


def test_modules_are_printed_after_passes_under_their_names(model: str, capsys) -> None:
    passes = ["--passes", "join-reshapes,absorb-transpose,join-reshapes"]
    _, one = ran(capsys, "opt", model, *passes, "--print-after", "absorb-transpose")
    assert _HEADING.findall(one) == ["absorb-transpose"]
    out, every = ran(capsys, "opt", model, *passes, "--print-after", "all")
    assert _HEADING.findall(every) == ["join-reshapes", "absorb-transpose", "join-reshapes"]
    parts = _HEADING.split(every)[2::2]
    assert "R.permute_dims" in parts[0]
    assert parts[2].strip().splitlines()[: len(out.splitlines())] == out.splitlines()


def test_what_opt_prints_is_what_is_compiled(model: str, capsys, kept: None) -> None:
    """The last module before code is made of it; from a cache nothing would be seen."""
    compiled = ["compile", model, *TARGET, "-o", "m.odtc"]
    ran(capsys, *compiled)
    assert step_store().size().entries == 1
    expected = Path("m.odtc").read_bytes()
    _, again = ran(capsys, *compiled)
    assert not _HEADING.findall(again)
    _, told = ran(
        capsys, *compiled, "--print-ir-after", "write-products", "--print-ir-after", "take-arena"
    )
    assert _HEADING.findall(told) == ["write-products", "take-arena"]
    assert Path("m.odtc").read_bytes() == expected
    out, _ = ran(capsys, "opt", model, *TARGET)
    assert out in told
    # No kernel is an outline, though the code of all is kept.
    assert "odtc.outline" not in told


@pytest.mark.parametrize("target", ["host-cpu{threads=2}", "android-vulkan"])
def test_a_compile_runs_the_passes_that_are_listed(
    target: str, model: str, capsys, run_json
) -> None:
    _, told = ran(capsys, "compile", model, "--target", target, "--print-ir-after", "all")
    rows = run_json("opt", "--list", "--target", target)
    assert _HEADING.findall(told) == [re.split(r"[({]", row["pass"])[0] for row in rows]


def test_a_pass_that_did_not_run_is_told(model: str, capsys) -> None:
    asked = ["--print-ir-after", "group-updates", "--print-ir-after", "keep-nan"]
    _, told = ran(capsys, "compile", model, *TARGET, *asked)
    assert "note: group-updates did not run for this target and these options" in told
    assert "keep-nan did not run" not in told


WRONG = {
    "opt --list --passes absorb-transpos": "did you mean absorb-transpose?",
    "opt m.onnx --passes fuse-named{most=few}": "option most is 'few', which is not a whole number",
    "opt m.onnx --print-after fuse-name": "did you mean fuse-named?",
    "opt m.onnx --passes join-reshapes --print-after fuse-named": "no pass 'fuse-named' runs",
    "opt m.onnx --stop-after keep-nam": "did you mean keep-nan?",
    "opt": "opt needs a MODEL",
    "opt m.onnx --offload": "it is only for a step with a memory budget",
    "opt m.onnx --passes order-calls": "the passes cannot run in this order: pass order-calls",
    "compile m.onnx --print-ir-after fuse-name": "did you mean fuse-named?",
}


@pytest.mark.parametrize("command", WRONG)
def test_what_is_wrong_is_said(command: str, model: str, capsys) -> None:
    out, told = ran(capsys, *command.split(), code=ExitCode.USAGE)
    assert not out
    assert WRONG[command] in told
    assert not _HEADING.findall(told)
    assert not Path("m.odtc").exists()


def test_a_model_that_is_none_is_said(here: Path, capsys) -> None:
    Path("m.onnx").write_text(json.dumps({}))
    _, told = ran(capsys, "opt", "m.onnx", code=ExitCode.MODEL)
    assert "m.onnx" in told
