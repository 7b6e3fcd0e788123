"""Every argument of every public function says what it wants, whatever else it is given."""

import inspect
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
import torch

import odtc
from odtc import onnx_backend
from odtc.core.artifact.manifest import Features
from odtc.core.errors import OdtcError, UsageError
from odtc.core.options.kinds import shown
from tests.errors.argument_table import EXEMPT, TABLE, cases
from tests.errors.models import LINEAR
from tests.reference_pages import _members

X, Y = np.ones((2, 4), np.float32), np.zeros(2, np.int64)
SCHEDULE = odtc.schedules.Cosine(0.1, steps=10)


class Scene(SimpleNamespace):
    """Valid arguments for the functions, beside the one that is wrong."""

    model: Path
    artifact: odtc.Artifact
    trainer: odtc.Trainer
    module: torch.nn.Module


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("arguments")
    onnx.save(LINEAR, folder / "m.onnx")
    update = odtc.Update("sgd{momentum=0.9}", ema=0.9)
    model = folder / "m.onnx"
    module = torch.nn.Sequential(torch.nn.Linear(4, 3))
    with (
        odtc.compile(model, batch=2, optimizer=update) as artifact,
        artifact.trainer() as trainer,
    ):
        yield Scene(folder=folder, model=model, artifact=artifact, trainer=trainer, module=module)


def functions() -> dict[str, Callable[..., Any]]:
    """All that the package has by name, and the methods of what it returns."""
    found: dict[str, Callable[..., Any]] = {}
    for name in odtc.__all__:
        value = getattr(odtc, name)
        if inspect.ismodule(value):
            found |= {f"{name}.{key}": each for key, each in _members(value)}
        else:
            found[name] = value
    for kind in (odtc.Artifact, odtc.Trainer):
        methods = {key: each for key, each in _members(kind) if callable(each)}
        found |= {f"{kind.__name__}.{key}": each for key, each in methods.items()}
    found["onnx_backend.prepare"] = onnx_backend.prepare
    found["onnx_backend.Prepared.run"] = onnx_backend.Prepared.run
    found["Session.sampling"] = type(odtc.connect()).sampling
    found["schedules.Schedule.__call__"] = odtc.schedules.Schedule.__call__
    return found


def arguments(function: Callable[..., Any]) -> set[str]:
    """Names of what a function takes."""
    parameters = inspect.signature(function).parameters
    own = {name for name, each in parameters.items() if each.kind is not each.VAR_KEYWORD}
    return own - {"self"}


def test_every_argument_is_in_the_table():
    missing = {
        name: arguments(function) ^ TABLE.get(name, {}).keys()
        for name, function in functions().items()
        if name not in EXEMPT
    }
    assert not {name: found for name, found in missing.items() if found}
    assert TABLE.keys() <= functions().keys()


# What each is called with, beside what is wrong.
CALLS: dict[str, Callable[[Scene, dict[str, Any]], Any]] = {
    "load": lambda _, given: odtc.load(**({"path": "a.odtc"} | given)),
    "compile": lambda s, k: odtc.compile(**{"model": s.model, "batch": 2} | k),
    "plan": lambda s, k: odtc.plan(**{"model": s.model, "batch": 2} | k),
    "match_weights": lambda s, k: odtc.match_weights(**{"model": s.model, "weights": {}} | k),
    "replace_head": lambda s, k: odtc.replace_head(
        **{"model": s.model, "classes": 2, "path": s.folder / "h.onnx"} | k
    ),
    "from_torch": lambda s, k: odtc.from_torch(
        **{"module": s.module, "example_inputs": torch.ones(2, 4), "path": s.folder / "t.onnx"} | k
    ),
    "Group": lambda _, k: odtc.Group(**{"glob": "*"} | k),
    "Update": lambda _, k: odtc.Update(**{"optimizer": "sgd"} | k),
    "TensorSpec": lambda _, k: odtc.TensorSpec(**{"name": "x", "shape": (2,)} | k),
    "Trainer": lambda s, k: odtc.Trainer(
        **{"bundle": s.artifact._bundle, "session": s.trainer.session} | k
    ),
    "Trainer.step": lambda s, k: s.trainer.step(**{"x": X, "y": Y, "lr": 0.1} | k),
    "Trainer.train": lambda s, k: list(s.trainer.train(**{"batches": [(X, Y)], "lr": 0.1} | k)),
    "Trainer.fit": lambda s, k: s.trainer.fit(
        **{"data": (X, Y), "lr": 0.1, "validation": (X, Y)} | k
    ),
    "Trainer.find_learning_rate": lambda s, k: s.trainer.find_learning_rate(
        **{"data": (X, Y), "points": 2} | k
    ),
    "Trainer.features": lambda s, k: s.trainer.features(
        **{"of": Features("train_step", ()), "x": {"x": X}} | k
    ),
    "Checkpoint": lambda s, k: odtc.Checkpoint(**{"path": s.folder / "c"} | k),
    "BestCheckpoint": lambda s, k: odtc.BestCheckpoint(**{"path": s.folder / "c"} | k),
    "Trainer.profile": lambda s, k: s.trainer.profile(**k).__enter__(),
    "Trainer.evaluate": lambda s, k: s.trainer.evaluate(**{"x": X} | k),
    "Trainer.predict": lambda s, k: s.trainer.predict(**{"data": X} | k),
    "Trainer.to_torch": lambda s, k: s.trainer.to_torch(**{"module": s.module} | k),
    "Trainer.export_onnx": lambda s, k: s.trainer.export_onnx(**{"path": s.folder / "e.onnx"} | k),
    "Trainer.export_adapters": lambda s, k: s.trainer.export_adapters(
        **{"path": s.folder / "a.safetensors"} | k
    ),
    "Trainer.add_adapter": lambda s, k: s.trainer.add_adapter(**{"name": "bob"} | k),
    "Trainer.save_adapter": lambda s, k: s.trainer.save_adapter(**{"path": s.folder / "s"} | k),
    "Trainer.export_gguf": lambda s, k: s.trainer.export_gguf(
        **{"path": s.folder / "a.gguf", "base_config": s.folder} | k
    ),
    "Trainer.export_peft": lambda s, k: s.trainer.export_peft(**{"path": s.folder / "peft"} | k),
    "onnx_backend.prepare": lambda _, k: onnx_backend.prepare(**{"model": LINEAR} | k),
    "onnx_backend.Prepared.run": lambda _, k: onnx_backend.prepare(LINEAR).run(**k),
    "Session.sampling": lambda s, k: s.trainer.session.sampling(**k).__enter__(),
    "schedules.Constant": lambda _, k: odtc.schedules.Constant(**k),
    "schedules.Step": lambda _, k: odtc.schedules.Step(**{"lr": 0.1, "every": 2} | k),
    "schedules.Cosine": lambda _, k: odtc.schedules.Cosine(**{"lr": 0.1, "steps": 2} | k),
    "schedules.OneCycle": lambda _, k: odtc.schedules.OneCycle(**{"lr": 0.1, "steps": 2} | k),
    "schedules.Warmup": lambda _, k: odtc.schedules.Warmup(**{"then": SCHEDULE, "steps": 2} | k),
    "Normalize": lambda _, k: odtc.Normalize(**{"mean": 0.5, "std": 0.5} | k),
    "schedules.Schedule.__call__": lambda _, k: SCHEDULE(**k),
    "schedules.parse_schedule": lambda _, k: odtc.schedules.parse_schedule(
        **{"text": "cosine", "lr": 0.1, "updates": 10} | k
    ),
}


# Those that take one argument, by place; one that cannot be made, and one that is derived from.
WITHOUT_NAMES = {"Session.sampling", "schedules.Schedule.__call__", "schedules.Schedule"}
WITHOUT_NAMES |= {"Callback"}
# ONNX's interface has arguments for other backends, too.
WITHOUT_NAMES |= {"onnx_backend.prepare", "onnx_backend.Prepared.run"}


def called(name: str, scene: Scene, given: dict[str, Any]) -> Any:
    """Calls a function with what is wrong."""
    if name in CALLS:
        return CALLS[name](scene, given)
    owner, _, method = name.rpartition(".")
    held = {"Artifact": scene.artifact, "Trainer": scene.trainer}
    return getattr(held[owner] if owner else odtc, method)(**given)


# What is wanted, where no hint says it.
SAYS_BOUND = re.compile(
    r"is (outside|below|not a number|empty)|which is no|is not one of:|has no number"
)


# What data is called, and a part of what was given.
CALLED = {
    "x": "x|input",
    "y": "label",
    "lr": "lr|learning_rate",
    "batches": "batch",
    "data": "data|batch|input|samples",
    "validation": "validation|data|batch",
    "metrics": "metric",
    "callbacks": "callback",
    "augment": "augment|crop",
    "values": "set_parameters",
    "groups": "group",
    "set": "(^|_)set_|value_of_x",
    "url": "url|device",
    "inputs": "input",
}


def names_value(text: str, value: Any) -> bool:
    """Whether a message shows the value, or a part of it, or says of which type it is."""
    parts = [value]
    if isinstance(value, dict):
        parts += [*value, *value.values()]
    if isinstance(value, list | tuple):
        parts += value
    said = {each for part in parts for each in ways_to_say(part)}
    return any(each.lower() in text.lower() for each in said if each)


def ways_to_say(value: Any) -> Iterator[str]:
    """The texts of which a message has one."""
    yield from (shown(value), type(value).__name__, str(value))
    if isinstance(value, float):
        yield f"{value:g}"
    if isinstance(value, str):
        yield value.rpartition("=")[2]
    if value is None or (isinstance(value, str | list | dict) and not value):
        yield from ("''", "none", "no loss", "no input", "no label", "0 ")
    if isinstance(value, list | np.ndarray):
        array = np.array(value, None if isinstance(value, np.ndarray) else object)
        yield from (str([*array.shape]), f" {array.dtype}", f" {array.size}", *map(str, array.flat))
    if callable(value):
        yield "learning rate"  # what a schedule gave


@pytest.mark.parametrize(
    ("name", "argument"), list(cases()), ids=[f"{name}({each})" for name, each in cases()]
)
def test_a_wrong_value_is_told(name: str, argument: str, scene: Scene):
    wrong = []
    for value in TABLE[name][argument]:
        label = f"{argument}={shown(value)}"
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                called(name, scene, {argument: value})
            wrong.append(f"{label}: accepted")
        except OdtcError as error:
            text = str(error)
            if not error.hint and not SAYS_BOUND.search(text):
                wrong.append(f"{label}: no hint: {text}")
            if not re.search(CALLED.get(argument, argument), re.sub("[- ]", "_", text)):
                wrong.append(f"{label}: its name is not in: {text}")
            if not names_value(text, value):
                wrong.append(f"{label}: the value is not in: {text}")
        except Exception as error:
            wrong.append(f"{label}: {type(error).__name__}: {error}")
    assert not wrong, "\n".join(wrong)


def test_a_number_that_python_would_not_write_is_told(scene: Scene):
    with pytest.raises(UsageError, match="an integer of 16610 bits cannot be the value of x"):
        odtc.compile(scene.model, batch=2, set={"x": 10**5000})


@pytest.mark.parametrize("name", sorted(TABLE.keys() - WITHOUT_NAMES))
def test_an_argument_that_there_is_not_is_told(name: str, scene: Scene):
    with pytest.raises(UsageError, match="unexpected keyword argument 'lernrate'") as failure:
        called(name, scene, {"lernrate": 1})
    assert "call " in str(failure.value.hint)


def test_what_other_libraries_take_is_said_where_it_is_given():
    with pytest.raises(UsageError, match=r"hint: the learning rate goes to each step"):
        odtc.SGD(lr=0.1)  # type: ignore[call-arg]
    with pytest.raises(UsageError, match=r"hint: they are beta1 and beta2"):
        odtc.Adam(betas=(0.9, 0.99))  # type: ignore[call-arg]
    with pytest.raises(UsageError, match=r"hint: did you mean batch\?"):
        odtc.compile("m.onnx", batchs=4)  # type: ignore[call-arg]


class Named:
    """A path that is neither a text nor a pathlib.Path."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __fspath__(self) -> str:
        return str(self._path)


def test_numbers_of_numpy_paths_of_any_kind_and_texts_are_taken(scene: Scene):
    options = {
        "batch": np.int64(2),
        "eval_batch": [np.int64(1)],
        "loss": ["y=0.5*cross-entropy{label-smoothing=0.1}"],
        "optimizer": odtc.Update("adamw{beta1=0.8}", groups=["w{weight-decay=0}"]),
        "train": {"w"},
        "shape": {"x": np.array([2, 4])},
        "batch_axis": {"x": np.int8(0)},
        "micro_batches": np.uint8(1),
        "dropout": np.bool_(False),
        "seed": np.int32(7),
    }
    artifact = odtc.compile(Named(scene.model), memory_budget=1.5e6, **options)
    assert artifact.manifest.batch == 2
    assert artifact.manifest.loss == "y=0.5*cross-entropy{label-smoothing=0.1}"
    path = Named(scene.folder / "saved.odtc")
    artifact.save(path)
    trainer = odtc.load(path).trainer(threads=np.int64(1), storage=scene.folder)
    odd = X.astype(">f8")[:, ::-1]
    for x, y in (
        *((odd, Y.astype(np.int8)), (torch.ones(2, 4, requires_grad=True), torch.tensor([0, 1]))),
        *(([[1, 2, 3, 4]] * 2, [0, 2]), ({"x": np.asfortranarray(X)}, {"label": Y.astype(">i4")})),
    ):
        assert np.isfinite(trainer.step(x, y, lr=np.float32(0.1)))
    trainer.step(X, Y, lr=torch.tensor(0.1))
    list(trainer.train([(X, Y)], lr=lambda updates: 0.1, steps_per_call=np.int64(1)))
    trainer.export_onnx(Named(scene.folder / "out.onnx"), verify=np.bool_(True))


@pytest.mark.parametrize(
    "weight", [[1, 2, 3], (1.0, 2.0, 3.0), np.arange(1, 4), torch.arange(1, 4)]
)
def test_weights_of_classes_are_any_row_of_numbers(weight: Any):
    assert odtc.CrossEntropy(weight=weight) == odtc.CrossEntropy(weight=(1.0, 2.0, 3.0))


def test_adapters_are_read_from_their_text(scene: Scene):
    made = odtc.compile(scene.model, batch=2, lora="rank=2,alpha=4")
    same = odtc.compile(scene.model, batch=2, lora=odtc.LoRA(rank=2, alpha=4.0))
    assert made.manifest.adapters == same.manifest.adapters
