"""Output of `odtc compile`, `inspect`, `targets` and `check`, and the effect of options."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import onnx
import pytest
from safetensors.numpy import load_file

import odtc
from benchmarks.models.digits import bn_model
from odtc.artifact import Memory
from odtc.cli.main import main
from odtc.cli.model.memory import report
from odtc.cli.pictures.skyline import COLOURS, draw
from odtc.core.artifact.memory_plan import Origin
from odtc.core.errors import ExitCode
from odtc.core.specs import TensorSpec
from tests.charts.reading import bare, points_of
from tests.cli.training.digits import BATCH, SAMPLES, Digits, trained


def test_compile_prints_the_path_alone(digits: Digits, here: Path):
    done = subprocess.run(
        [sys.executable, "-m", "odtc", "compile", digits.model, "--batch", "2", "--train", "fc*"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "d.odtc\n"
    assert [path.name for path in here.iterdir()] == ["d.odtc"]
    said = [line for line in done.stderr.splitlines() if not line.startswith("note: ")]
    assert said[:3] == ["look for the step", "load the compiler", "read the model"]
    assert "batch 2: 4 of 8 weight tensors are trained; parameters 149.5 KiB" in said[-1]


def test_compile_with_options(digits: Digits, here: Path, run_json):
    optimizer = "sgd{momentum=0.5,weight-decay=1e-4}"
    made = run_json(
        *("compile", digits.model, "--shape", "N=3", "--optimizer", optimizer, "-o", "x.odtc")
    )
    assert made["artifact"] == "x.odtc"
    assert made["batch"] == 3
    assert made["optimizer"] == {
        "name": "sgd",
        "momentum": 0.5,
        "weight_decay": 1e-4,
        "dampening": 0.0,
        "nesterov": False,
    }
    assert made == run_json("inspect", "x.odtc")


def test_micro_batches_from_compile_to_train(digits: Digits, here: Path, run_json, capsys):
    options = ["--batch", "16", "--optimizer", "sgd{momentum=0.9}", "--micro-batches", "4"]
    assert run_json("compile", digits.model, *options, "-o", "m.odtc")["micro_batches"] == 4
    described = run_json("inspect", "m.odtc", "--memory")
    sizes, memory = described["sizes"], described["memory"]
    assert described["batch"] == described["inputs"][0]["shape"][0] == 16
    assert 2 * sizes["accumulators"] == sizes["optimizer"] > 0
    assert memory["accumulator_bytes"] == sizes["accumulators"]
    assert main(["inspect", "m.odtc"]) == 0
    assert "4, of 4 of the 16 samples of a step each" in capsys.readouterr().out
    assert main(["inspect", "m.odtc", "--memory"]) == 0
    assert "4; the plan is that of one of them" in capsys.readouterr().out
    whole = run_json(*trained(digits, "--steps", "3", "--lr", "0.05"))
    arguments = ["train", "m.odtc", "--data", digits.train, "--steps", "3", "--lr", "0.05"]
    split = run_json(*arguments, "--eval-data", digits.test)
    assert split["steps"] == whole["steps"] == 3
    assert split["loss"] == pytest.approx(whole["loss"], rel=1e-5)
    assert 0 <= split["accuracy"] <= 1


@pytest.mark.parametrize("suffix", ["svg", "html"])
def test_the_picture_of_a_frontier_has_all_of_its_points(
    suffix: str, digits: Digits, run_json, tmp_path: Path
) -> None:
    path = tmp_path / f"frontier.{suffix}"
    found = run_json(
        *("plan", digits.model, "--batch", "4", "--target", "host-cpu{threads=1}"),
        *("--plot", path),
    )
    text = path.read_text()
    for point in found["points"]:
        nbytes = point["arena_bytes"] + point["accumulator_bytes"]
        assert f"{nbytes:,} bytes, {point['time']:.3f} of the time" in text
    places = [(point.x, point.y) for point in points_of(bare(text))]
    assert len(places) >= len(found["points"])
    assert all(0 <= x <= 100 and 0 <= y <= 100 for x, y in places)


def test_plan_prints_one_object_alone(digits: Digits):
    """In a process of its own: what a library writes in C is not Python's to capture."""
    options = ("--batch", "2", "--micro-batches", "1", "--json")
    command = [sys.executable, "-m", "odtc", "plan", digits.model, *options]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["points"]


def test_plan_tells_the_number_of_micro_batches(digits: Digits, run_json, capsys):
    arguments = ["plan", str(digits.model), "--batch", "2", "--target", "host-cpu{threads=1}"]
    found = run_json(*arguments, "--micro-batches", "2")
    assert {point["micro_batches"] for point in found["points"]} == {2}
    assert found["points"][0]["accumulator_bytes"] == found["parameter_bytes"]
    counted = ("--micro-batches", "2", "--loss", "cross-entropy{ignore-index=-1}")
    assert main([*arguments, *counted]) == 0
    printed = capsys.readouterr()
    heading, *lines = printed.out.splitlines()
    assert heading.split()[:4] == ["budget", "bytes", "time", "micro-batches"]
    assert {line.split()[4] for line in lines} == {"2"}


def test_compile_says_what_is_trained_in_part(digits: Digits, here: Path, run_json, capsys):
    choices = ("bias", "sparse{layers=conv2.*,channels=0.25}")
    made = run_json(
        *("compile", digits.model, "--batch", "2", "--train", *choices, "--freeze", "fc?.bias")
    )
    assert made["tensors"] == {"trained": 3, "frozen": 5, "statistics": 0}
    (block,) = made["blocks"].values()
    assert (block["axis"], block["size"]) == (0, 8)
    assert made == run_json("inspect", "d.odtc")
    assert main(["inspect", "d.odtc"]) == 0
    assert "conv2.weight: channels " in capsys.readouterr().out


def test_adapters_are_compiled_trained_and_exported(digits: Digits, here: Path, run_json, capsys):
    lora = "rank=4,alpha=8,targets=conv2.*|fc1.*"
    made = run_json("compile", digits.model, "--batch", "16", "--lora", lora)
    assert made["tensors"] == {"trained": 4, "frozen": 8, "statistics": 0}
    assert [item["weight"] for item in made["adapters"]] == ["conv2.weight", "fc1.weight"]
    assert {item["scale"] for item in made["adapters"]} == {2.0}
    run_json(
        *("train", "d.odtc", "--data", digits.train, "--lr", "0.05", "--steps", "3"),
        *("--export", "merged.onnx", "--export-adapters", "a.safetensors"),
    )
    assert {name: value.shape for name, value in load_file("a.safetensors").items()} == {
        "base_model.model.conv2.lora_A.weight": (4, 16, 3, 3),
        "base_model.model.conv2.lora_B.weight": (32, 4, 1, 1),
        "base_model.model.fc1.lora_A.weight": (4, 512),
        "base_model.model.fc1.lora_B.weight": (64, 4),
    }
    before, after = onnx.load(digits.model).graph, onnx.load("merged.onnx").graph
    assert list(before.node) == list(after.node)
    changed = [b.name for b, a in zip(before.initializer, after.initializer, strict=True) if a != b]
    assert changed == ["conv2.weight", "fc1.weight"]
    assert main(["inspect", "d.odtc"]) == 0
    assert "fc1.weight, rank 4, scale 2" in capsys.readouterr().out


def test_inspect(digits: Digits, capsys: pytest.CaptureFixture[str]):
    assert main(["inspect", str(digits.artifact)]) == 0
    text = capsys.readouterr().out
    rows = {line[: line.index("  ")]: line.split("  ")[-1].strip() for line in text.splitlines()}
    optimizer = "sgd{momentum=0.9,weight-decay=0.0,dampening=0.0,nesterov=false}"
    assert rows["optimizer"] == optimizer
    assert rows["input"] == f"image: float32[{BATCH}, 1, 8, 8]"
    assert rows["label"] == f"label: int32[{BATCH}], one of 10 classes"
    assert rows["tensors"] == "8 trained, 0 frozen, 0 statistics"
    assert rows["parameters"] == "149.5 KiB (153,128 bytes)"


def test_inspect_says_what_memory_holds(
    digits: Digits, run_json, capsys: pytest.CaptureFixture[str]
):
    memory = run_json("inspect", digits.artifact, "--memory")["memory"]
    plan = odtc.load(digits.artifact).memory
    for name in ("arena", "lower_bound", "parameter", "optimizer", "peak"):
        assert memory[f"{name}_bytes"] == getattr(plan, f"{name}_bytes")
    assert memory["proven_optimal"] == plan.proven_optimal
    assert max(call["live_bytes"] for call in memory["calls"]) == plan.peak_bytes
    (relu,) = (
        each
        for each in memory["tensors"]
        if each["kind"] == "saved activation" and each["origins"][0]["tensor"] == "relu1"
    )
    assert relu["bytes"] == BATCH * 16 * 8 * 8 * 4
    assert [each["node"] for each in relu["origins"]] == ["-> relu1", "-> conv1"]
    assert main(["inspect", str(digits.artifact), "--memory"]) == 0
    lines = capsys.readouterr().out.splitlines()
    (peak,) = (line for line in lines if line.startswith("peak "))
    assert f"({plan.peak_bytes:,} bytes) alive in call {plan.plan.peak_call}" in peak
    table = lines[lines.index("saved for the backward pass") + 1 :]
    assert table[0].split() == ["bytes", "tensor", "origin"]
    assert ["65,536", "relu1", "->", "relu1,", "->", "conv1"] in [line.split() for line in table]


def test_the_list_of_tensors_ends_with_the_sum_of_the_small_ones(digits: Digits):
    plan = odtc.load(digits.artifact).memory.plan
    many = [
        replace(plan.tensors[0], spec=TensorSpec(f"{size}" * 99, (size,)))
        for size in range(25, 0, -1)
    ]
    lines = report(Memory(replace(plan, tensors=tuple(many)), 0, 0))
    rest = [line for line in lines if "smaller ones" in line]
    assert rest == ["  and 5 smaller ones, 60 B (60 bytes) in all"] * len(rest)
    assert rest


@pytest.mark.parametrize("suffix", ["svg", "html"])
def test_plot_draws_each_tensor_once(suffix: str, digits: Digits, here: Path, run_json):
    run_json("inspect", digits.artifact, "--plot", f"plan.{suffix}")
    assert [path.name for path in here.iterdir()] == [f"plan.{suffix}"]
    root = bare(Path(f"plan.{suffix}").read_text())
    drawn = [each for each in root.iter("rect") if each.findtext("title")]
    plan = odtc.load(digits.artifact).memory.plan
    assert len(drawn) == len(plan.tensors)
    ordered = [each for kind in COLOURS for each in plan.of_kind(kind)]
    heights = set()
    for each, tensor in zip(drawn, ordered, strict=True):
        tip = each.findtext("title") or ""
        assert tip.startswith(f"{tensor.tensor}\nfrom {tensor.origin}\n")
        assert f"{tensor.nbytes:,} bytes" in tip
        if tensor.nbytes > 4096:
            heights.add(float(each.get("height", "").rstrip("%")) / tensor.nbytes)
    assert max(heights) < 1.01 * min(heights)
    labels = {each.text for each in root.iter()} | {each.tail for each in root.iter()}
    assert {"backward and update begin", "saved activation", "lower bound"} <= labels


def test_names_in_a_plot_are_text(tmp_path: Path, digits: Digits):
    plan = odtc.load(digits.artifact).memory.plan
    evil = replace(plan.tensors[0], origins=(Origin('<script>"&', "</title>"),))
    draw(replace(plan, tensors=(evil,)), "<b>", tmp_path / "p.svg")
    root = ElementTree.parse(tmp_path / "p.svg").getroot()
    assert '</title>\nfrom <script>"&' in "".join(root.itertext())


def test_everything_around_the_optimizer(
    digits: Digits, here: Path, run_json, capsys: pytest.CaptureFixture[str]
):
    made = run_json(
        *("compile", digits.model, "--batch", BATCH, "--optimizer", "adamw", "--ema", "0.9"),
        *("--groups", "*.bias{weight-decay=0}", "conv*{lr-factor=0.5}", "--clip-norm", "1"),
        *("--accumulate", "4", "--loss-scale", "dynamic{initial=1024}", "-o", "x.odtc"),
    )
    assert made["update"] == {
        "groups": [
            {"glob": "*.bias", "options": {"weight_decay": 0.0}, "lr_factor": 1.0},
            {"glob": "conv*", "options": {}, "lr_factor": 0.5},
        ],
        "clip_value": None,
        "clip_norm": 1.0,
        "accumulate": 4,
        "ema": 0.9,
        "loss_scale": {"initial": 1024.0, "growth": 2.0, "backoff": 0.5, "interval": 2000},
        "on_nonfinite": "stop",
    }
    assert main(["inspect", "x.odtc"]) == 0
    text = capsys.readouterr().out
    rows = [" ".join(line.split()) for line in text.splitlines()]
    for row in (
        "optimizer adamw{beta1=0.9,beta2=0.999,eps=1e-08,weight-decay=0.01}",
        "group *.bias{weight-decay=0.0,lr-factor=1.0}",
        "group conv*{lr-factor=0.5}",
        "clip norm 1.0",
        "accumulate 4",
        "ema 0.9",
        "loss scale dynamic{initial=1024.0,growth=2.0,backoff=0.5,interval=2000}",
    ):
        assert row in rows
    trained = run_json(
        *("train", "x.odtc", "--data", digits.train, "--epochs", 8, "--lr", 0.02, "--ema"),
        *("--schedule", "cosine", "--warmup", 4, "--eval-data", digits.test, "--export", "e.onnx"),
    )
    assert trained["steps"] == 8 * SAMPLES // BATCH
    assert trained["accuracy"] > 0.5


def test_schedule_reaches_the_steps(digits: Digits, here: Path, run_json):
    """With a learning rate of 0 from the second step on, one step is all that is done."""
    first = run_json(
        *("train", digits.artifact, "--data", digits.train, "--lr", 0.1, "--steps", 1),
        *("--export", "first.onnx"),
    )
    run_json(
        *("train", digits.artifact, "--data", digits.train, "--lr", 0.1, "--steps", 9),
        *("--schedule", "cosine{steps=1}", "--export", "last.onnx"),
    )
    assert first["steps"] == 1
    assert Path("first.onnx").read_bytes() == Path("last.onnx").read_bytes()


def test_targets(run_json, capsys: pytest.CaptureFixture[str]):
    data = run_json("targets")
    listed = {target["name"]: target for target in data["targets"]}
    assert listed["android-cpu"]["available"]
    assert listed["android-opencl"]["available"]
    assert listed["android-vulkan"]["available"]
    assert main(["targets"]) == 0
    first, gpus = capsys.readouterr().out.split("\n\n")
    lines = first.splitlines()
    assert [line.split()[0] for line in lines] == list(listed)
    for line, target in zip(lines, listed.values(), strict=True):
        assert f"  {target['reason'] or 'available'}  " in line
    known = {gpu["name"]: gpu for gpu in data["gpus"]}
    assert known["adreno-640"]["most_items"] == 1024
    assert [line.split()[0] for line in gpus.splitlines()] == [f"gpu={name}" for name in known]


def test_check(digits: Digits, run_json):
    report = run_json("check", digits.model, "--all")
    assert report["trainable"]
    assert report["levels"] == {"trainable": 9, "forward-only": 0, "unsupported": 0}
    assert report["operators"][0] == {"op_type": "Relu", "count": 3, "level": "trainable"}
    assert len(report["nodes"]) == 9
    assert report["parameters"]["count"] == len(report["parameters"]["names"]) == 8
    assert report["parameters"]["bytes"] == 153_128


def test_check_counts_no_statistics_as_trainable(here: Path, run_json):
    onnx.save(bn_model(), "bn.onnx")
    names = run_json("check", "bn.onnx", "--all")["parameters"]["names"]
    assert "bn1.scale" in names
    assert "bn1.mean" not in names


def test_check_takes_the_options_of_compile(digits: Digits, run_json):
    report = run_json("check", digits.model, "--all", "--train", "last{k=1}", "--micro-batches", 1)
    assert report["parameters"]["names"] == ["fc2.weight", "fc2.bias"]


def test_check_says_which_nodes_block(here: Path, run_json, capsys: pytest.CaptureFixture[str]):
    model = bn_model()
    model.graph.node[2].op_type = "Hardmax"
    onnx.save(model, "hardmax.onnx")
    report = run_json("check", "hardmax.onnx", code=ExitCode.UNSUPPORTED)
    assert not report["trainable"]
    assert [node["op_type"] for node in report["nodes"] if node["blocks"]] == ["Hardmax"]
    assert main(["check", "hardmax.onnx"]) == ExitCode.UNSUPPORTED
    captured = capsys.readouterr()
    assert captured.out.startswith("hardmax.onnx cannot be trained: 1 of 10 nodes block it\n")
    assert (
        "  -> relu1 (Hardmax)  forward-only  blocks  no gradient in this version\n" in captured.out
    )
    assert not captured.err
