"""Models of ultralytics with random weights, by its own export."""

import os
import shutil
import tempfile
from pathlib import Path

import torch
from ultralytics import YOLO

from tests.published.exporters.asked import asked
from tests.published.exporters.calibration import calibrate

SIZE = 64


def main() -> None:
    """Exports what the command line names."""
    wanted = [(name, path.resolve()) for name, path in asked()]
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        for name, path in wanted:
            torch.manual_seed(0)
            model = YOLO(f"{name}.yaml")
            calibrate(model.model, torch.randn(16, 3, SIZE, SIZE))
            made = model.export(format="onnx", imgsz=SIZE, simplify=False, dynamic=True)
            shutil.move(Path(made), path)


if __name__ == "__main__":
    main()
