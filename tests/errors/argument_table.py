"""Which wrong values each argument of the public functions is tried with.

`TABLE` has every argument of every function; a new one without an entry fails a test. Values are
grouped by what is wanted: `True` for a number, "2" for a count, a list for a name.
"""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

NOT_WHOLE = (True, "2", 2.0, np.float32(2), [2], b"2", 2**70)
NOT_COUNT = (*NOT_WHOLE, 0, -1)
# Options of dataclasses are read from text, too, and a float that is whole is one.
NOT_OPTION_COUNT = (True, "two", 2.5, None, [2], np.nan, np.inf, 0, b"2")
NOT_NUMBER = (True, "much", None, [0.5], np.ones(2), 1j, b"0.5", np.nan)
NOT_SHARE = (*NOT_NUMBER, -0.5, 2.0, np.inf)
NOT_FLAG = (1, 0, "true", None, [True], 0.5)
NOT_SWITCH = (5, "maybe", None, [True], 0.5)
NOT_TEXT = (5, b"x", "", None, ["x"], True)
NOT_PATH = (5, b"m.onnx", "", None, ["m.onnx"], "a\0b", True, object())
NOT_FUNCTION = (5, "print", [print])
NOT_BYTES = (True, "much", b"1MB", 0, -1, np.nan, np.inf, [64], 10**30, 1e30, "-1MiB", "")
NOT_REDUCTION = (5, None, "average", b"mean", ["mean"])
NOT_FACTORS = (True, "1:2", [True], ["a"], [-1.0], [np.nan], [0.0], {"a": 1.0}, np.ones((2, 2)))
NOT_MAPPING = (5, "x=1", [1], {5: 1}, {"": 1})
NOT_NAMES = (5, b"x", True, {"x": 1}, ["x", 5], [""])
NOT_MODULE = (5, None, "net.py", torch.nn.Linear, torch.zeros(2), {"w": torch.zeros(2)})
NOT_ARRAY = (
    "x",
    b"x",
    object(),
    [[1.0], [2.0, 3.0]],
    [["a"]],
    np.array([[object()]]),
    SimpleNamespace(),
)
NOT_FEED = (
    *NOT_ARRAY,
    np.ones((2, 4), np.complex64),
    np.ones(()),
    np.ones((0, 4)),
    np.ones((2, 5)),
)

CHOICES = (5, b"w", True, [5], ["w", None], {"w": 1}, "", [""])


def _optional(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Those of what may be None."""
    return tuple(value for value in values if value is not None)


WATCHED = {
    "monitor": _optional(NOT_TEXT),
    "mode": (*_optional(NOT_TEXT), "most"),
}
STEP = {
    "batch": NOT_COUNT,
    "eval_batch": (
        *(True, "two", 2.5, None, b"2", np.nan, {1: 1}, 0, -1, 3),  # of a batch of 2
        *([0], ["1"], [1, 2.5], [1, None], [[1]], (1, 3)),
    ),
    "lengths": (
        *(True, "two", 2.5, None, b"2", np.nan, {1: 1}, 0, -1, 3),  # of a model of fixed sizes
        *(["1"], [1, 2.5], [1, None], [[1]], (1, 3)),
    ),
    "loss": (
        *(5, None, [], b"mse", True, object(), torch.nn.MSELoss(), torch.nn.MSELoss, [5]),
        *({5: "mse"}, {"y": None}, {"y": (1,)}, {"y": ("a", "mse")}, {"y": (True, "mse")}),
    ),
    "optimizer": (5, True, "", b"sgd", torch.optim.SGD, [], {"name": "sgd"}, 0),
    "train": (*CHOICES, []),
    "freeze": (*CHOICES, None),
    "freeze_batch_norm": NOT_FLAG,
    "lora": (True, 4, "", "rank=two", {"rank": 2}, [2]),
    "quantize": (True, 4, b"int4", ["int4"], {"int4": 32}),
    "shape": (*NOT_MAPPING, {"N": True}, {"N": 2.0}, {"x": (2, "4")}, {"x": (2, None)}, {"N": "2"}),
    "batch_axis": (*NOT_MAPPING[:4], {"x": True}, {"x": "0"}, {"x": 0.0}, {"x": (0,)}),
    "set": (5, "x=1", [1], {5: 1}, {"x": "fast"}, {"x": None}, {"x": [[1], [2, 3]]}),
    "normalize": (5, True, "", b"imagenet", "mean=0.5", "imagent", (0.5, 0.5), {"mean": 0.5}),
    "precision": (*NOT_TEXT, np.float16, torch.float16, "half"),
    "micro_batches": NOT_COUNT,
    "allow_split_batchnorm": NOT_FLAG,
    "allow_half_activations": NOT_FLAG,
    "offload": NOT_FLAG,
    "weights_beside": NOT_FLAG,
    "dropout": NOT_FLAG,
    "seed": (*NOT_WHOLE, None, -1, 2**63),
    "tuned": NOT_FLAG,
    "database": tuple(value for value in NOT_PATH if value is not None),
    "device": (5, "", "cuda", True, {}),
    "layout": (5, b"native", None, "", ["native"], True, "a\0b"),
}
COMPILE = {
    "model": (*NOT_PATH, torch.nn.Linear(2, 2)),
    "target": (*NOT_TEXT, torch.device("cpu")),
    **STEP,
    "memory_budget": NOT_BYTES,
    "progress": (None, *NOT_FUNCTION),
}
RUN = {
    "threads": NOT_COUNT,
    "cores": (5, [0, 1], "", b"big", True, 0.5),
}
MADE_BY_ODTC = (None, 5, "m.odtc", b"", {})
FIRST_BETA = NOT_SHARE
DECAY = (*NOT_NUMBER, -0.5, np.inf)
EPS = (*DECAY, 0)
SCHEDULE = {"lr": (True, "0.1", None, [0.1], np.ones(2), 1j)}
EMA = {"ema": NOT_FLAG}

PREDICTED = {
    "x": (*NOT_FEED, None, {}, {"z": np.ones((2, 4))}),
    "output": (5, b"y", "", ["y"], np.ones(2), "z"),
    **EMA,
}


TEXT_OPTIONS = {
    "tokenizer": _optional(NOT_PATH),
    "end_token": (*_optional(NOT_TEXT), "</s>"),
    "pack": NOT_FLAG,
}

# By the function's name, after `odtc.`.
TABLE: dict[str, dict[str, tuple[Any, ...]]] = {
    "L1": {"reduction": NOT_REDUCTION},
    "MSE": {"reduction": NOT_REDUCTION},
    "Huber": {"delta": EPS, "reduction": NOT_REDUCTION},
    "SmoothL1": {"beta": EPS, "reduction": NOT_REDUCTION},
    "KLDiv": {"log_target": NOT_FLAG, "reduction": NOT_REDUCTION},
    "BCEWithLogits": {"pos_weight": NOT_FACTORS, "reduction": NOT_REDUCTION},
    "NLL": {
        "ignore_index": NOT_WHOLE,
        "weight": NOT_FACTORS,
        "axis": (*NOT_WHOLE, None),
        "reduction": NOT_REDUCTION,
    },
    "CrossEntropy": {
        "label_smoothing": NOT_SHARE,
        "ignore_index": NOT_WHOLE,
        "weight": NOT_FACTORS,
        "axis": (*NOT_WHOLE, None),
        "soft_labels": NOT_FLAG,
        "reduction": NOT_REDUCTION,
    },
    "InModel": {},
    "LossGraph": {"path": NOT_PATH},
    "SGD": {
        "momentum": NOT_SHARE,
        "weight_decay": DECAY,
        "dampening": NOT_SHARE,
        "nesterov": NOT_SWITCH,
    },
    "Lion": {"beta1": FIRST_BETA, "beta2": NOT_SHARE, "weight_decay": DECAY},
    "Adagrad": {"lr_decay": DECAY, "weight_decay": DECAY, "initial_accumulator": DECAY, "eps": EPS},
    "Adam": {"beta1": NOT_SHARE, "beta2": NOT_SHARE, "eps": EPS, "weight_decay": DECAY},
    "AdamW": {"beta1": NOT_SHARE, "beta2": NOT_SHARE, "eps": EPS, "weight_decay": DECAY},
    "LAMB": {"beta1": NOT_SHARE, "beta2": NOT_SHARE, "eps": EPS, "weight_decay": DECAY},
    "RMSProp": {
        "alpha": NOT_SHARE,
        "eps": EPS,
        "weight_decay": DECAY,
        "momentum": NOT_SHARE,
        "centered": NOT_SWITCH,
    },
    "Group": {
        "glob": NOT_TEXT,
        "options": (None, 5, "weight-decay=0", [0.0], {5: 0.0}),
        "lr_factor": DECAY,
    },
    "LossScale": {
        "initial": EPS,
        "growth": EPS,
        "backoff": NOT_SHARE,
        "interval": NOT_OPTION_COUNT,
    },
    "LoRA": {
        "rank": NOT_OPTION_COUNT,
        "alpha": EPS,
        "targets": NOT_TEXT,
        "seed": (*NOT_OPTION_COUNT[:-2], -1),
        "rslora": NOT_SWITCH,
        "dora": NOT_SWITCH,
        "rank_pattern": _optional((*NOT_TEXT, "", "4", "*:", ":4", "*:0", "*:1.5")),
        "alpha_pattern": _optional((*NOT_TEXT, "", "4", "*:", ":4", "*:0", "*:inf", "*:nan")),
        "dropout": (*NOT_NUMBER, -0.5, 1.0, np.inf),
    },
    "LiveView": {"console": (5, "stderr", True)},
    "Normalize": {
        "mean": (True, "0.5", None, [], [None], [np.nan], np.inf, {"r": 0.5}, [0.5, 0.5]),
        "std": (True, "0.5", None, [], ["0.5"], [0.0], -1.0, np.nan, [0.5, 0.5]),
        "input": _optional(NOT_TEXT),
        "columns": (None, 5, "a", [5], ["a", "b"]),
    },
    "Update": {
        "optimizer": (None, 5, "", True, torch.optim.SGD, {}),
        "groups": (None, 5, "*.bias", [5], {"*": 1}, ["*.bias"], [("*", {})]),
        "clip_value": (True, "much", [1.0], 0, -1.0, np.nan, np.inf),
        "clip_norm": (True, "much", [1.0], 0, -1.0, np.nan, np.inf),
        "accumulate": NOT_OPTION_COUNT,
        "ema": (True, "much", [0.9], 1, -0.5, np.nan),
        "loss_scale": (5, True, "", "static", [1024.0], 1024.0),
        "on_nonfinite": (5, "", "raise", True),
    },
    "TensorSpec": {
        "name": (5, b"x", None, ["x"], True),
        "shape": (None, 5, "2x3", [2, "3"], (True,), (2.0,), {"a": 2}),
        "dtype": (None, 5, np.float32, torch.float32),
    },
    "Artifact": {"bundle": MADE_BY_ODTC},
    "Artifact.save": {"path": NOT_PATH},
    "Artifact.trainer": {
        "device": (5, b"adb://SERIAL", "", True, "cuda", torch.device("cpu"), ["adb://A"]),
        **RUN,
        "storage": tuple(value for value in NOT_PATH if value is not None),
        "offload_state": NOT_FLAG,
    },
    "Trainer": {
        "bundle": MADE_BY_ODTC,
        "session": (None, 5, "adb://SERIAL"),
        **RUN,
        "placement": (None, 5, "/tmp"),
        "owns_session": NOT_FLAG,
    },
    "Trainer.use_threads": RUN,
    "Trainer.set_budget": {"budget": (*NOT_BYTES, None)},
    "Trainer.follow_memory": {"reserve": (*NOT_BYTES, None), "available": NOT_FUNCTION},
    "Trainer.step": {
        "x": (*NOT_FEED, None, {}, {"z": np.ones((2, 4))}, {5: np.ones((2, 4))}),
        "y": (*NOT_ARRAY, None, {}, np.ones(2) / 2, np.zeros(3, int), np.array([5, 9]), ["a", "b"]),
        "lr": (True, "0.1", None, [0.1], np.ones(2), 1j, np.nan, np.inf, -0.1, {}),
    },
    "Trainer.train": {
        "batches": (None, 5, "x", [5], [("x",)], {"x": 1}, [[1, 2, 3]], torch.nn.Linear(2, 2)),
        "lr": (True, "0.1", None, [0.1], np.ones(2), np.nan, -0.1, lambda _: "x", lambda: 0.1),
        "steps_per_call": NOT_COUNT,
    },
    "Trainer.fit": {
        "data": (None, 5, b"x", object(), np.ones((2, 4)), {"z": np.ones((2, 4))}, [5], [("x",)]),
        "lr": (True, "0.1", None, [0.1], np.ones(2), np.nan, -0.1, lambda _: "x", lambda: 0.1),
        "epochs": _optional(NOT_COUNT),
        "steps": _optional(NOT_COUNT),
        "validation": (5, b"x", object(), np.ones((2, 4)), {"z": np.ones((2, 4))}, [5]),
        "metrics": ("", 5, b"x", ["accuracy", 5], "acuracy", "mae", "top-k{k=0}", [None]),
        "callbacks": (None, 5, "x", [5], ["x"], [dict], {"a": 1}),
        "schedule": (*NOT_FUNCTION, lambda lr, updates: "x", lambda: 0.1),
        "validate_every": _optional(NOT_COUNT),
        "resume": _optional(NOT_PATH),
        "seed": (*NOT_WHOLE, None, -1),
        "steps_per_call": NOT_COUNT,
        **EMA,
        "augment": (None, 5, "flip", [5], ["spin"], ["crop{pixels=0}"], ["flip"]),
        "skip_broken": NOT_FLAG,
        "feature_cache": (*(value for value in NOT_BYTES if value != 0), None),
        **TEXT_OPTIONS,
    },
    "Trainer.find_learning_rate": {
        "data": (None, 5, b"x", object(), np.ones((2, 4)), {"z": np.ones((2, 4))}, [5], [("x",)]),
        "lowest": (*NOT_NUMBER, np.inf, 0, -1.0, 20.0),
        "highest": (*NOT_NUMBER, np.inf, 0, 1e-8),
        "points": (*NOT_COUNT, 1),
        "seed": (*NOT_WHOLE, None, -1),
        "steps_per_call": NOT_COUNT,
        "augment": (None, 5, "flip", [5], ["spin"], ["crop{pixels=0}"], ["flip"]),
        "skip_broken": NOT_FLAG,
        **TEXT_OPTIONS,
    },
    "Trainer.features": {
        "of": (None, 5, "train_step", {"of": "train_step"}),
        "x": (None, 5, "x", {"z": np.ones((2, 4))}),
    },
    "Trainer.profile": {
        "period": (True, "0.1", None, [0.1], np.nan, 0, -1, 1e9),
        "root": NOT_PATH,
        "length": (0, -1, True, 4.0, "4"),
    },
    "Trainer.evaluate": PREDICTED,
    "Trainer.predict": {
        "data": (*PREDICTED["x"], ["x"], [("x",)]),
        "output": PREDICTED["output"],
        **EMA,
        "skip_broken": NOT_FLAG,
        **TEXT_OPTIONS,
    },
    "Trainer.parameters": EMA,
    "Trainer.state_dict": EMA,
    "Trainer.to_torch": {"module": NOT_MODULE, **EMA},
    "Trainer.set_parameters": {
        "values": (None, 5, "w", [1], {5: np.ones(2)}, {"v": np.ones(2)}, {"w": "x"}, {"w": None})
    },
    "Trainer.save_checkpoint": {"path": NOT_PATH},
    "Trainer.load_checkpoint": {"path": NOT_PATH},
    "Trainer.export_onnx": {
        "path": NOT_PATH,
        **EMA,
        "training": NOT_FLAG,
        "merge": NOT_FLAG,
        "verify": NOT_FLAG,
    },
    "Trainer.export_adapters": {"path": NOT_PATH, **EMA},
    "Trainer.export_gguf": {"path": NOT_PATH, "base_config": NOT_PATH, **EMA},
    "Trainer.export_peft": {"path": NOT_PATH, "base_model": (1, b"x", ""), **EMA},
    "Trainer.load_adapters": {"path": NOT_PATH},
    "Trainer.add_adapter": {"name": NOT_TEXT, "path": _optional(NOT_PATH)},
    "Trainer.set_adapter": {"name": NOT_TEXT},
    "Trainer.delete_adapter": {"name": NOT_TEXT},
    "Trainer.save_adapter": {"path": NOT_PATH, "name": _optional(NOT_TEXT)},
    "Callback": {},
    "EarlyStopping": {
        **WATCHED,
        "patience": NOT_COUNT,
        "min_delta": (True, "much", None, [0.5], np.nan, np.inf),
    },
    "TimeLimit": {"seconds": (True, "much", None, [0.5], np.nan, np.inf)},
    "Checkpoint": {"path": NOT_PATH, "every": NOT_COUNT, "keep": (*NOT_WHOLE, None, -1)},
    "BestCheckpoint": {"path": NOT_PATH, **WATCHED, "restore": NOT_FLAG},
    "JsonLines": {"path": NOT_PATH},
    "TensorBoard": {"folder": NOT_PATH},
    "Session.sampling": {
        "period": (True, "0.1", None, [0.1], np.nan, 0, -1, 1e9),
        "root": NOT_PATH,
    },
    "onnx_backend.prepare": {
        "model": (*NOT_PATH, "m.onnx"),
        "device": (5, b"CPU", "", None, "CUDA"),
    },
    "onnx_backend.Prepared.run": {
        "inputs": (None, 5, "x", [], [None], {"z": 1}, {5: 1}, [[[1.0], [2.0, 3.0]]], [["a"]])
    },
    "compile": COMPILE,
    "plan": {
        **{name: values for name, values in COMPILE.items() if name != "memory_budget"},
        "count": NOT_COUNT,
    },
    "connect": {"url": (5, b"x", "", "cuda", True, ["adb://A"]), "limits": (5, 1.0, "5s", {})},
    "load": {"path": NOT_PATH, "weights": tuple(value for value in NOT_PATH if value is not None)},
    "match_weights": {
        "model": NOT_PATH,
        "weights": (5, None, b"w.pt", "", torch.nn.Linear(2, 2), {5: np.ones(2)}, {"w": "x"}),
    },
    "replace_head": {
        "model": NOT_PATH,
        "classes": (*NOT_COUNT, None),
        "path": NOT_PATH,
        "of": (5, b"y", "", ["y"]),
        "at": (5, b"y", "", ["y"]),
        "freeze_backbone": NOT_FLAG,
        "seed": (*NOT_WHOLE, None, -1),
    },
    "from_torch": {
        "module": NOT_MODULE,
        "example_inputs": (None, 5, "x", [], (), {}, object(), np.array(["a"])),
        "path": NOT_PATH,
        "input_names": NOT_NAMES,
        "output_names": NOT_NAMES,
        "batch_axis": (True, "0", 0.0, [0], {5: 0}, {"input": "0"}, {"input": True}),
        "length_axis": (True, "0", 0.0, [0], {5: 0}, {"input": "0"}, {"input": True}, 0),
    },
    "schedules.Schedule": {},
    "schedules.Constant": SCHEDULE,
    "schedules.Step": {**SCHEDULE, "every": NOT_OPTION_COUNT, "gamma": EPS},
    "schedules.Cosine": {**SCHEDULE, "steps": NOT_OPTION_COUNT, "minimum": DECAY},
    "schedules.OneCycle": {
        **SCHEDULE,
        "steps": NOT_OPTION_COUNT,
        "rise": NOT_SHARE,
        "start": EPS,
        "end": EPS,
    },
    "schedules.Warmup": {
        "then": (None, 0.1, "cosine", True),
        "steps": NOT_OPTION_COUNT,
        "start": NOT_SHARE,
    },
    "schedules.Schedule.__call__": {"updates": (*NOT_WHOLE, None, -1)},
    "schedules.parse_schedule": {
        "text": NOT_TEXT,
        **SCHEDULE,
        "updates": (*NOT_WHOLE, None, -1),
    },
}

# Whose arguments are not looked at, and why.
EXEMPT = {
    "OdtcError": "it is raised by odtc; its arguments are texts for people",
    "History": "trainer.fit makes it",
}


def cases() -> Iterator[tuple[str, str]]:
    """Each function and argument."""
    return ((name, argument) for name, arguments in TABLE.items() for argument in arguments)
