"""A small transformer that predicts the column y of a table from the eight others."""

import sys

import numpy as np
import onnxruntime
import torch

import odtc


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.place = torch.nn.Linear(1, 16), torch.nn.Parameter(torch.randn(8, 16))
        self.layer = torch.nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        self.head = torch.nn.Linear(8 * 16, 1)

    def forward(self, x):
        return self.head(self.layer(self.embed(x.unsqueeze(-1)) + self.place).flatten(1))


odtc.from_torch(Net(), (torch.zeros(16, 8),), "net.onnx")
target, *device = sys.argv[1:] or ["host-cpu"]
artifact = odtc.compile("net.onnx", target, batch=16, loss="mse", optimizer="adamw")
trainer = artifact.trainer(*device)
kept = [odtc.EarlyStopping(patience=8), odtc.BestCheckpoint("best.ckpt", restore=True)]
run = {"lr": 3e-3, "epochs": 60, "schedule": odtc.schedules.Cosine, "callbacks": kept}
print(history := trainer.fit("train.csv", validation="test.csv", metrics=["r2", "mae"], **run))
trainer.export_onnx("trained.onnx")
row = np.linspace(0, 1, 8, dtype=np.float32)[None]
value = onnxruntime.InferenceSession("trained.onnx").run(None, {"x": row})[0]
print("value", value.item(), "best r2", max(history["val_r2"]))
