"""Spots keywords in a second of sound: sounds/WORD-*.wav, 8 kHz; every fourth is held out."""

import sys
import wave
from pathlib import Path

import numpy as np
import onnxruntime
import torch

import odtc

files = sorted(Path("sounds").glob("*.wav"))
words = sorted({file.stem.partition("-")[0] for file in files})
sounds = [np.frombuffer(wave.open(str(file)).readframes(8000), "<i2") / 2**15 for file in files]
frames = np.stack(sounds)[:, :7936].reshape(-1, 31, 256) * np.hanning(256)
x = np.log(np.abs(np.fft.rfft(frames))[..., :64] + 1e-3).astype(np.float32).swapaxes(1, 2)
y = np.array([words.index(file.stem.partition("-")[0]) for file in files])
held = np.arange(len(y)) % 4 == 0
layers = [torch.nn.Conv1d(64, 32, 5, 2), torch.nn.ReLU(), torch.nn.Conv1d(32, 32, 5, 2)]
net = torch.nn.Sequential(*layers, torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(160, 3))
odtc.from_torch(net, (torch.zeros(8, 64, 31),), "words.onnx")
target, *device = sys.argv[1:] or ["host-cpu"]
trainer = odtc.compile("words.onnx", target, batch=8, optimizer="adam").trainer(*device)
kept = [odtc.EarlyStopping(patience=4), odtc.BestCheckpoint("best.ckpt", restore=True)]
run = {"lr": 2e-3, "epochs": 30, "metrics": ["accuracy", "f1"], "callbacks": kept}
print(history := trainer.fit((x[~held], y[~held]), validation=(x[held], y[held]), **run))
trainer.export_onnx("spotter.onnx")
scores = onnxruntime.InferenceSession("spotter.onnx").run(None, {"input": x[:1]})[0]
print("word", words[scores.argmax()], "best accuracy", max(history["val_accuracy"]))
