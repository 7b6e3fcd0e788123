"""Files of small models, older than the file system's clock can resolve."""

from pathlib import Path

import onnx

from tests.mlp import mlp

SIZE, CLASSES = 64, 5
# A tensor that is large enough to stay in a file that is.
WIDE = 300


def write_model(folder: Path, *, beside: bool = False, seed: int = 0) -> Path:
    """A multilayer perceptron; `beside` puts its weights into a file of their own."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "mlp.onnx"
    model = mlp(SIZE, WIDE, CLASSES, seed)
    onnx.save(model, path, save_as_external_data=beside, location="mlp.data")
    # The clock of a file system is coarse: what is as new as this may be newer than a compile.
    for each in folder.iterdir():
        wait_for_the_clock(each)
    return path


def wait_for_the_clock(path: Path) -> None:
    """Until the clock of the file system has gone on."""
    other = path.with_name("clock")
    while not other.exists() or other.stat().st_ctime_ns - path.stat().st_ctime_ns < 30_000_000:
        other.write_text("")
    other.unlink()
