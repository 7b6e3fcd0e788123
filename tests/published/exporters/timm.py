"""timm's models, by `odtc.from_torch` and by PyTorch's default; run as a script."""

import torch

import odtc
from odtc.torch_export.torchvision_anyway import import_torchvision_anyway
from tests.published.exporters.asked import asked
from tests.published.exporters.calibration import calibrate

SIZE = 32
OPTIONS = {"vit_tiny_patch16_224": {"img_size": SIZE, "depth": 2}}


def main() -> None:
    """Exports what the command line names: MODEL by EXPORTER."""
    import_torchvision_anyway()
    import timm

    for name, path in asked():
        model, _, exporter = name.partition(" by ")
        torch.manual_seed(0)
        module = timm.create_model(model, num_classes=10, **OPTIONS.get(model, {}))
        calibrate(module, torch.randn(16, 3, SIZE, SIZE))
        example = torch.randn(2, 3, SIZE, SIZE)
        if exporter == "from_torch":
            odtc.from_torch(module.train(), (example,), path)
        else:
            batch = {0: torch.export.Dim("batch")}
            torch.onnx.export(
                module, (example,), path, dynamic_shapes=(batch,), external_data=False
            )


if __name__ == "__main__":
    main()
