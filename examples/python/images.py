"""A MobileNetV3 with a new head for folders of images: images/train/CLASS/*.png, images/test."""

from functools import partial

import numpy as np
import onnxruntime
import torch
from PIL import Image
from torchvision.models.mobilenetv3 import InvertedResidualConfig, MobileNetV3

import odtc

norm = partial(torch.nn.BatchNorm2d, momentum=0.1)
blocks = [(16, 3, 32, 24, True, "RE", 2, 1, 1), (24, 3, 48, 32, False, "HS", 2, 1, 1)]
net = MobileNetV3([InvertedResidualConfig(*each) for each in blocks], 64, norm_layer=norm)
odtc.from_torch(net, (torch.zeros(8, 3, 32, 32),), "thousand.onnx")
odtc.replace_head("thousand.onnx", 3, "shapes.onnx")
trainer = odtc.compile("shapes.onnx", batch=8, optimizer="adam").trainer()
kept = [odtc.EarlyStopping(patience=6), odtc.BestCheckpoint("best.ckpt", restore=True)]
data = {"data": "images/train", "validation": "images/test"}
history = trainer.fit(**data, lr=3e-3, epochs=30, metrics=["accuracy"], callbacks=kept)
print(history)
trainer.export_onnx("trained.onnx")
image = np.asarray(Image.open("image.png").convert("RGB"), np.float32).transpose(2, 0, 1) / 255
session = onnxruntime.InferenceSession("trained.onnx")
scores = session.run(None, {session.get_inputs()[0].name: image[None]})[0]
print("class", scores.argmax(), "best accuracy", max(history["val_accuracy"]))
