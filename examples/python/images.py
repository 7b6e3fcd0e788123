"""A small MobileNetV3 with a new head, trained on images/train/CLASS/*.png and images/test."""

import sys

import numpy as np
import onnxruntime
import torch
from PIL import Image
from torch import nn

import odtc


def block(before: int, wide: int, after: int, step: int) -> nn.Sequential:
    grow = [nn.Conv2d(before, wide, 1, bias=False), nn.BatchNorm2d(wide), nn.Hardswish()]
    mix = [nn.Conv2d(wide, wide, 3, step, 1, groups=wide, bias=False), nn.BatchNorm2d(wide)]
    shrink = [nn.Hardswish(), nn.Conv2d(wide, after, 1, bias=False), nn.BatchNorm2d(after)]
    return nn.Sequential(*grow, *mix, *shrink)


body = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), block(16, 48, 24, 2), block(24, 72, 32, 2))
net = nn.Sequential(body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 1000))
odtc.from_torch(net, (torch.zeros(8, 3, 32, 32),), "thousand.onnx")
odtc.replace_head("thousand.onnx", 3, "shapes.onnx")
target, *device = sys.argv[1:] or ["host-cpu"]
trainer = odtc.compile("shapes.onnx", target, batch=8, optimizer="adam").trainer(*device)
kept = [odtc.EarlyStopping(patience=6), odtc.BestCheckpoint("best.ckpt", restore=True)]
run = {"validation": "images/test", "metrics": ["accuracy"], "callbacks": kept}
print(history := trainer.fit("images/train", lr=3e-3, epochs=30, **run))
trainer.export_onnx("trained.onnx")
image = np.asarray(Image.open("image.png").convert("RGB"), np.float32).transpose(2, 0, 1) / 255
scores = onnxruntime.InferenceSession("trained.onnx").run(None, {"input": image[None]})[0]
print("class", scores.argmax(), "best accuracy", max(history["val_accuracy"]))
