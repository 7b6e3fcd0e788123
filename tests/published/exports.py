"""Models that other tools export, with random weights; each tool lies in a folder of its own."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from odtc.core.disk.files import cache_folder
from tests.published.options import Options

_SECONDS = 400
_ROOT = Path(__file__).parents[2]
_SCRIPTS = Path(__file__).parent / "exporters"
_SHARED = ("asked.py", "calibration.py")
_CLASSES = Options(loss="cross-entropy")


@dataclass(frozen=True)
class Tool:
    """A tool that exports models.

    Attributes:
        script: of `tests.published.exporters`, that runs it.
        requirements: what is installed for it, beside what the project has.
        models: what the script is asked for, with how each is compiled.
        takes_all: whether all that these require is installed for it, too.
    """

    script: str
    requirements: Sequence[str]
    models: Mapping[str, Options]
    takes_all: bool = False


TOOLS = (
    Tool(
        "timm",
        (),
        {
            f"{model} by {exporter}": _CLASSES
            for model in (
                "lcnet_035",
                "mobilenetv3_small_050",
                "resnet10t",
                "tinynet_e",
                "vit_tiny_patch16_224",
            )
            for exporter in ("from_torch", "torch.onnx")
        },
    ),
    Tool(
        "sklearn",
        ("skl2onnx==1.20.0",),
        {
            "LogisticRegression": Options(),
            "StandardScaler, LogisticRegression": Options(),
            "PCA, MLPRegressor": Options(),
            "MLPClassifier": Options(),
            "MLPRegressor": Options(),
        },
    ),
    Tool(
        "keras",
        ("keras==3.15.1", "optree==0.20.0", "namex==0.1.0", "absl-py==2.5.1"),
        {
            "cnn": _CLASSES,
            **dict.fromkeys(("gru", "lstm", "separable"), Options()),
        },
    ),
    Tool(
        "tf2onnx",
        ("tensorflow-cpu==2.19.1", "tf2onnx==1.17.0"),
        {
            **dict.fromkeys(("mlp", "cnn"), _CLASSES),
            **dict.fromkeys(("separable", "lstm", "attention"), Options()),
        },
        takes_all=True,
    ),
    Tool(
        "jax",
        ("jax2onnx==0.17.1",),
        {
            **dict.fromkeys(("mlp", "cnn"), _CLASSES),
            **dict.fromkeys(("normed", "attention", "scan"), Options()),
        },
        takes_all=True,
    ),
    Tool(
        "ultralytics",
        (
            *("ultralytics==8.4.190", "ultralytics-thop==2.2.3", "polars==2.1.0"),
            *("polars-runtime-32==2.1.0", "opencv-python-headless==5.0.0.93"),
        ),
        {
            "yolov8n-cls": Options(shape={"height": 64, "width": 64}, loss="cross-entropy"),
            "yolov8n": Options(shape={"height": 64, "width": 64}),
        },
    ),
)
EXPORTS = {
    f"{tool.script}: {model}": options for tool in TOOLS for model, options in tool.models.items()
}


def export_path(name: str) -> Path:
    """Where the file of a model lies."""
    plain = "".join(c if c.isalnum() or c in "._-" else "-" for c in name)
    return _folder(name.partition(":")[0]) / f"{plain}.onnx"


def export(tools: Sequence[Tool] = TOOLS) -> Iterator[str]:
    """Exports what is not there yet.

    Yields:
        What could not be had: a line for each tool.
    """
    for tool in tools:
        wanted = {name: export_path(f"{tool.script}: {name}") for name in tool.models}
        wanted = {name: path for name, path in wanted.items() if not path.is_file()}
        try:
            if wanted:
                _run(tool, wanted)
        except (OSError, subprocess.SubprocessError) as error:
            last = (getattr(error, "stderr", None) or str(error)).strip().splitlines()[-1:]
            yield f"{tool.script}: {''.join(last)}"


def _run(tool: Tool, wanted: Mapping[str, Path]) -> None:
    folder = _folder(tool.script)
    folder.mkdir(parents=True, exist_ok=True)
    place = cache_folder() / "published" / "tools" / tool.script
    if tool.requirements and not place.is_dir():
        alone = [] if tool.takes_all else ["--no-deps"]
        _call([*_PIP, *alone, "--target", str(place), *tool.requirements], folder, {})
    models = [f"{name}={path}" for name, path in wanted.items()]
    script = [sys.executable, "-m", f"tests.published.exporters.{tool.script}"]
    _call([*script, *models], folder, {"PYTHONPATH": os.pathsep.join((str(_ROOT), str(place)))})


_PIP = [sys.executable, "-m", "pip", "install", "--quiet", "--only-binary=:all:"]


def _call(command: Sequence[str], folder: Path, added: Mapping[str, str]) -> None:
    subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **added},
        check=True,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
    )


def _folder(script: str) -> Path:
    """Where the exports of a script lie, as it is now: what an older one exported is another's."""
    read = (f"{script}.py", *_SHARED)
    text = b"".join((_SCRIPTS / name).read_bytes() for name in read)
    return cache_folder() / "published" / "exports" / sha256(text).hexdigest()[:12]
