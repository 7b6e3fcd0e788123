"""Options of a step that change nothing are told, each row of the tables, and only there."""

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

import odtc
from odtc.backends.targets import parse_target
from odtc.driver.drafts.idle import ADAPTERS_DROP, OF_DRAFT, OF_STEP
from odtc.driver.examination import examine
from odtc.driver.options.step_options import StepOptions
from tests.runtime_rpc.own_server import NATIVE, serving

PLAIN, DROPPING, NORMALISED, EMBEDDED = "plain", "dropping", "normalised", "embedded"
BATCH = 8

Case = tuple[str, Mapping[str, Any], str]
# The model, the options, and what is said of the last of these; nothing where it changes something.
OF_DRAFTS: list[Case] = [
    (PLAIN, {"seed": 1}, "the model has no dropout, and draws nothing else"),
    (DROPPING, {"dropout": False, "seed": 1}, "dropout is off"),
    (DROPPING, {"seed": 1}, ""),
    (PLAIN, {"dropout": False}, "the model has none"),
    (DROPPING, {"dropout": False}, ""),
    (PLAIN, {"freeze_batch_norm": True}, "no batch normalisation has its parameters frozen"),
    (NORMALISED, {"freeze_batch_norm": True}, "no batch normalisation has its parameters frozen"),
    (NORMALISED, {"train": "3.*", "freeze_batch_norm": True}, ""),
    (PLAIN, {"train": "*weight", "freeze": "*bias"}, "nothing of it would be trained"),
    (PLAIN, {"freeze": "*bias"}, ""),
    (PLAIN, {"lora": "rank=2", "freeze": "*bias"}, "nothing of it would be trained"),
    # In float32, too, it leaves out what is not finite once it is scaled.
    (PLAIN, {"optimizer": odtc.Update("sgd", loss_scale="dynamic")}, ""),
    (
        PLAIN,
        {"optimizer": odtc.Update("sgd", groups=["*{lr-factor=2}", "*.bias{lr-factor=3}"])},
        "an earlier group takes each parameter that it matches",
    ),
    (
        PLAIN,
        {"optimizer": odtc.Update("sgd", groups=["*.bias{lr-factor=3}", "*{lr-factor=2}"])},
        "",
    ),
    (
        PLAIN,
        {"optimizer": odtc.Update("sgd", groups=["*.bias{weight-decay=0}"])},
        "each parameter would be updated so without it",
    ),
    (
        PLAIN,
        {"optimizer": odtc.Update("sgd{weight-decay=0.1}", groups=["*.bias{weight-decay=0}"])},
        "",
    ),
    # The first keeps the second from the biases.
    (
        PLAIN,
        {"optimizer": odtc.Update("sgd", groups=["*.bias{weight-decay=0}", "*{weight-decay=0.1}"])},
        "",
    ),
    (PLAIN, {"optimizer": "sgd{dampening=0.5}"}, "there is no momentum"),
    (PLAIN, {"optimizer": "sgd{dampening=0.5,momentum=0.9}"}, ""),
    (
        PLAIN,
        {"optimizer": odtc.Update("sgd{dampening=0.5}", groups=["*.bias{momentum=0.9}"])},
        "",
    ),
    (PLAIN, {"loss": "cross-entropy{weight=2:2:2}"}, "all classes weigh the same"),
    (PLAIN, {"loss": "nll{weight=2:2:2}"}, "all classes weigh the same"),
    (PLAIN, {"loss": "cross-entropy{weight=2:2:1}"}, ""),
    (PLAIN, {"loss": "cross-entropy{weight=2:2:2,reduction=sum}"}, ""),
    (PLAIN, {"loss": "cross-entropy{weight=2:2:2,soft-labels=true}"}, ""),
    (PLAIN, {"lora": "rank=1,rslora=true"}, "all adapters have rank 1, whose root is 1"),
    (PLAIN, {"lora": "rank=1,rslora=true,rank_pattern=0.*:2"}, ""),
    (PLAIN, {"lora": "rank=2,dropout=0.1"}, ""),
    (EMBEDDED, {"lora": "rank=2,targets=0.*,dropout=0.1"}, "adapters are of embeddings, which"),
    (PLAIN, {"layout": "cheapest"}, "the model has no images"),
    (NORMALISED, {"precision": "mixed", "layout": "auto"}, "in mixed precision"),
    (NORMALISED, {"layout": "cheapest"}, ""),
    (PLAIN, {"tuned": False, "database": "records.jsonl"}, "without tuned no measurement"),
    (PLAIN, {"tuned": False, "device": "adb://serial"}, "without tuned no measurement"),
]
OF_STEPS: list[Case] = [
    (PLAIN, {"allow_split_batchnorm": True}, "the model has no batch normalisation"),
    (NORMALISED, {"allow_split_batchnorm": True}, "the step takes its batch whole"),
    (NORMALISED, {"micro_batches": 2, "allow_split_batchnorm": True}, ""),
    (PLAIN, {"memory_budget": "64MiB", "allow_half_activations": True}, "float32 is as fast"),
    (PLAIN, {"memory_budget": "64MiB", "offload": True}, "no tensor waits in a file"),
    (PLAIN, {"eval_batch": BATCH}, "this many samples are evaluated at once in any case"),
    (PLAIN, {"micro_batches": 2, "eval_batch": 4}, "this many samples are evaluated at once"),
    (PLAIN, {"eval_batch": (4, BATCH)}, ""),
    (PLAIN, {"database": "records.jsonl"}, "there is no such file of measurements yet"),
    (PLAIN, {"database": "empty.jsonl"}, "nothing of this step was measured"),
]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    folder = tmp_path_factory.mktemp("idle")
    torch.manual_seed(0)
    images = torch.zeros(BATCH, 3, 6, 6)
    nets = {
        PLAIN: (torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Linear(8, 3)), images[:, 0, 0]),
        DROPPING: (
            torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Dropout(0.5)),
            images[:, 0, 0],
        ),
        NORMALISED: (
            torch.nn.Sequential(
                torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.Flatten()
            ).append(torch.nn.Linear(64, 3)),
            images,
        ),
        EMBEDDED: (
            torch.nn.Sequential(
                torch.nn.Embedding(9, 4), torch.nn.Flatten(), torch.nn.Linear(8, 3)
            ),
            torch.zeros(BATCH, 2, dtype=torch.int64),
        ),
    }
    for name, (net, example) in nets.items():
        odtc.from_torch(net, (example,), folder / f"{name}.onnx")
    return {name: folder / f"{name}.onnx" for name in nets}


def option_of(case: Case) -> str:
    last = [*case[1]][-1]
    value = case[1][last]
    if isinstance(value, odtc.Update):
        return "groups" if value.groups else "loss_scale"
    return last


def told(case: Case, notes: list[str]) -> list[str]:
    """What is said of the option that a case is about."""
    return [note for note in notes if note.startswith(option_of(case)) and "changes no" in note]


def check(case: Case, notes: list[str]) -> None:
    found = told(case, notes)
    assert len(found) == bool(case[2]), notes
    assert not found or case[2] in found[0]


@pytest.mark.parametrize("case", OF_DRAFTS, ids=lambda case: f"{case[0]} {[*case[1]]} {case[2]}")
def test_check_tells_what_the_model_shows(models: Mapping[str, Path], case: Case):
    options = StepOptions(batch=BATCH, **case[1])
    report = examine(str(models[case[0]]), parse_target("host-cpu"), options)
    check(case, [*report.notes])


@pytest.mark.parametrize("name", [PLAIN, DROPPING])
def test_no_dropout_is_not_that_of_adapters(models: Mapping[str, Path], name: str):
    begins = {
        PLAIN: "dropout changes nothing: the model has none;",
        DROPPING: "dropout is off in the model alone:",
    }
    said = f"{begins[name]} {ADAPTERS_DROP}"
    for lora, dropout, is_said in (
        ("rank=2,dropout=0.1", False, True),
        ("rank=2,dropout=0.1", True, False),
        ("rank=2", False, False),
    ):
        options = StepOptions(batch=BATCH, lora=lora, dropout=dropout)
        report = examine(str(models[name]), parse_target("host-cpu"), options)
        assert (said in report.notes) is is_said


def test_of_a_gpu_layouts_are_those_of_onnx(models: Mapping[str, Path]):
    options = StepOptions(batch=BATCH, layout="cheapest")
    report = examine(str(models[NORMALISED]), parse_target("android-opencl"), options)
    check((NORMALISED, {"layout": "cheapest"}, "images of a step for a GPU"), [*report.notes])


@pytest.mark.parametrize("case", OF_STEPS, ids=lambda case: f"{case[0]} {[*case[1]]} {case[2]}")
def test_a_compile_notes_and_warns(
    models: Mapping[str, Path], case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    Path("empty.jsonl").touch()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        artifact = odtc.compile(models[case[0]], batch=BATCH, **case[1])
    check(case, [*artifact.manifest.notes])
    warned = [str(each.message).removeprefix("compile: ") for each in caught]
    check(case, warned)


def test_of_a_device_nothing_was_measured(models: Mapping[str, Path], tmp_path: Path):
    said = "device changes nothing: nothing of this step was measured there"
    with serving(tmp_path / "server", server=NATIVE) as url, pytest.warns(UserWarning, match=said):
        odtc.compile(models[PLAIN], batch=BATCH, device=url)


def test_what_is_kept_warns_again(models: Mapping[str, Path]):
    for _ in range(2):
        with pytest.warns(UserWarning, match="compile: seed changes nothing: the model has no"):
            odtc.compile(models[PLAIN], batch=BATCH, seed=3)


def test_each_row_has_a_case():
    of_steps = [row for row in OF_STEP if row.option != "device"]  # see above
    for table, cases in ((OF_DRAFT, OF_DRAFTS), (of_steps, OF_STEPS)):
        held = {(option_of(case), case[2]) for case in cases if case[2]}
        missing = [
            row
            for row in table
            if not any(name == row.option and said in row.why for name, said in held)
        ]
        assert not missing
