"""Every error that a user can cause: its kind, its exit code and its whole text.

One table: `CAUSES` here says how to cause each, and errors.txt what must come of it. Each is caused
through the command line, or through the library where there is no such option; either way it must
be a clear text without a traceback, and leave no file behind.
"""

import gc
import random
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from benchmarks.packing.inputs import CAPACITY, FOLDER
from odtc.backends.targets import parse_target
from odtc.cli.main import main
from odtc.core.errors import OdtcError, error_kinds
from odtc.driver.examination import examine
from odtc.driver.options.step_options import StepOptions
from tests.cli.training.digits import BATCH
from tests.errors.causes import (
    CHECKPOINT,
    IMAGES,
    LABELS,
    accuracy_of_regression,
    artifact_bytes,
    artifact_members,
    at_device,
    at_stranger,
    checkpoint_bytes,
    checkpoint_of,
    compile_as_is,
    compile_bytes,
    compile_digits,
    compile_layout,
    compile_linear,
    compile_model,
    compile_to,
    diverging,
    export_app,
    flipped,
    for_another_machine,
    foreign_checkpoint,
    forward,
    group,
    inspect_artifact,
    load_adapters,
    manifest_with,
    moved_up,
    on_device,
    on_small_disk,
    pack,
    plan_with,
    plans_with,
    plot_to,
    step,
    train,
    train_bytes,
    train_file,
    train_on,
    trainer,
    update,
    with_external_data,
    with_small_temporary,
    without,
    without_adb,
    without_linker,
)
from tests.errors.measuring import (
    another_log,
    bench_of,
    comparison,
    comparison_into,
    measured,
    other_losses,
    profile,
    profile_of_nothing,
    profile_too_early,
    profile_within_another,
    report_of,
    samples_too_early,
    stock_server,
    sweep,
    sweep_into,
    sweep_of_a_model,
    sweep_of_the_same,
)
from tests.errors.models import (
    DIVIDED_BY_ZERO,
    FED_MODE,
    FED_RATIO,
    LEFT_OPERAND,
    LINEAR,
    SHARED,
    TWO_GRADIENTS,
    WORDS,
    behind,
    dense,
    looping,
    node,
    sized,
    with_value,
)
from tests.errors.passes import OF_PASSES
from tests.errors.place import Cause, Place
from tests.errors.tuning import merge_nothing, tune, tune_into_no_folder, with_database

ROWS = np.ones((2, 4), np.float32)

# Its plans are at least that high, and hard to make as low.
HARD_TABLE = FOLDER / f"D.{CAPACITY}.csv"

WIDE = dense(node("MatMul", ["x", "w"], "y"), x=["N", "width"])

CAUSES: dict[str, Cause] = {
    # models that are run forward
    "forward on a GPU": forward(LINEAR, [ROWS], "CUDA"),
    "forward without an input": forward(LINEAR, []),
    "forward with another name": forward(LINEAR, {"X": ROWS}),
    "forward on texts": forward(LINEAR, [np.array([["a"] * 4])]),
    "forward of two gradients": forward(TWO_GRADIENTS, [ROWS]),
    "forward in a mode that is an input": forward(FED_MODE, [ROWS, np.array(True)]),
    "forward of a ratio that is an input": forward(FED_RATIO, [ROWS, np.float32(0.5)]),
    # models
    "model missing": lambda place: ["compile", str(place.inputs / "m.onnx")],
    "model is a folder": lambda place: ["check", str(place.inputs)],
    "model with too long a name": lambda _: ["check", "m" * 300],
    "model empty": compile_bytes(b""),
    "model truncated": compile_bytes(LINEAR.SerializeToString()[:150]),
    "model random bytes": compile_bytes(bytes(range(7, 256)) * 4),
    "model is text": compile_bytes(b"Dear model,\nplease train.\n"),
    "model is JSON": compile_bytes(b'{"a": 1}', "m.json"),
    "model is a picture": compile_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0"),
    "unsupported operator": compile_model(
        dense(
            node("MatMul", ["x", "v"], "h"),
            node("Cast", ["h"], "i", to=7),
            node("TfIdfVectorizer", ["i"], "y", **WORDS),
        )
    ),
    "division by zero": compile_model(DIVIDED_BY_ZERO),
    "loop of too many trips": compile_model(looping(2**31 - 1)),
    "operator of another domain": compile_model(
        dense(node("MatMul", ["x", "w"], "h"), node("Fancy", ["h"], "y", domain="com.example"))
    ),
    "Hardmax on the trained path": compile_model(behind("Hardmax")),
    "shapes that do not fit": compile_model(
        dense(node("MatMul", ["x", "w"], "h"), node("MatMul", ["h", "v"], "y"))
    ),
    "weights in a file that is missing": with_external_data("w.bin"),
    "weights in a file outside": with_external_data("../../w.bin"),
    "operator unknown to ONNX": compile_model(behind("Nonsense")),
    "logits are no matrix": compile_model(
        dense(node("MatMul", ["x", "w"], "h"), node("ReduceSum", ["h"], "y", keepdims=0))
    ),
    "scores for the loss in the model": compile_model(LINEAR, "--loss", "in-model"),
    "trained weight that is infinite": compile_model(with_value(LINEAR, -np.inf), "--train", "w"),
    "trained weight that is no number": lambda place: [
        "check",
        str(place.write("m.onnx", with_value(LINEAR, np.nan).SerializeToString())),
    ],
    "batch not given": compile_linear(),
    "batch 0": compile_linear("--batch", "0"),
    "batch negative": compile_linear("--batch", "-3"),
    # Which call needs most depends on the tasks that share it, and so on the threads.
    "memory budget too small": compile_digits(
        "--memory-budget", "1KiB", "--target", "host-cpu{threads=1}"
    ),
    "memory budget is no number": compile_digits("--memory-budget", "little"),
    "float16 without a budget": compile_digits("--allow-half-activations"),
    "float16 in plans of the same bits": compile_digits(
        "--allow-half-activations", "--memory-budget", "auto"
    ),
    "float16 twice": compile_digits("--allow-half-activations", "--precision", "mixed"),
    "offload without a budget": compile_digits("--offload"),
    "offload on a GPU": compile_digits(
        "--offload", "--memory-budget", "1MiB", "--target", "android-opencl"
    ),
    "layout that is no plan": compile_digits("--layout", "NHWC"),
    "layouts on a GPU": compile_layout("", "--target", "android-opencl"),
    "layouts in lines of one word": compile_layout("t0_\n"),
    "layout of an operator that there is not": compile_layout("t0_ NHWC\n"),
    "storage that takes nothing": compile_digits("--target", "android-cpu{storage_write=0}"),
    "micro-batches 0": compile_digits("--micro-batches", "0"),
    "micro-batches that do not divide the batch": compile_digits("--micro-batches", "3"),
    "micro-batches of an uneven mean": compile_digits(
        "--micro-batches", "2", "--loss", "cross-entropy{ignore-index=-1}"
    ),
    "micro-batches of mixed samples": compile_model(
        behind("Softmax", axis=0), "--micro-batches", "2"
    ),
    "micro-batches of batch statistics": compile_model(
        behind("MeanVarianceNormalization", axes=[0]), "--micro-batches", "2"
    ),
    "seed negative": compile_linear("--batch", "2", "--seed", "-1"),
    "batch is no number": compile_linear("--batch", "four"),
    "other dimension not given": compile_model(
        dense(node("MatMul", ["x", "w"], "y"), x=["N", "width"])
    ),
    "dimension without a name": compile_model(dense(node("MatMul", ["x", "w"], "y"), x=["N", ""])),
    "dimension unknown": compile_linear("--batch", "2", "--shape", "M=2"),
    "dimension malformed": compile_linear("--shape", "N:2"),
    "input of another rank": compile_model(WIDE, "--shape", "x=2x3x4"),
    "batch given twice": compile_linear("--batch", "2", "--shape", "x=3x4"),
    "batch axis malformed": compile_linear("--batch", "2", "--batch-axis", "y:1"),
    "batch axis of no tensor": compile_linear("--batch", "2", "--batch-axis", "z=1"),
    "batch axis that there is not": compile_linear("--batch", "2", "--batch-axis", "x=2"),
    "batch axis elsewhere": compile_linear("--batch", "2", "--batch-axis", "y=1"),
    "weight of a negative size": compile_as_is(sized(LINEAR, 4, -1), "--batch", "2"),
    "value malformed": compile_linear("--batch", "2", "--set", "x=fast"),
    "value of no input": compile_linear("--batch", "2", "--set", "sr=16000"),
    "value of the batch's only input": compile_linear("--batch", "2", "--set", "x=1"),
    "value of another shape": compile_linear("--batch", "2", "--set", "x=1,2,3"),
    "dimension that does not fit": compile_model(WIDE, "--shape", "width=5"),
    # options
    "command unknown": lambda _: ["trian"],
    "command missing": lambda _: [],
    "option unknown": compile_digits("--fast"),
    "target unknown": compile_digits("--target", "android-gpu"),
    "GPU unknown": compile_digits("--target", "android-opencl{gpu=mali-g77ae}"),
    "GPU of a CPU": compile_digits("--target", "android-cpu{gpu=mali-g77}"),
    "loss unknown": compile_digits("--loss", "hinge"),
    "loss malformed": compile_digits("--loss", "[hinge]"),
    "loss's option unknown": compile_digits("--loss", "mse{delta=1}"),
    "loss's option no number": compile_digits("--loss", "huber{delta=wide}"),
    "loss's weights of other classes": compile_digits("--loss", "nll{weight=1:2}"),
    "loss along the batch": compile_digits("--loss", "cross-entropy{axis=0}"),
    "losses without outputs": compile_digits("--loss", "mse", "l1"),
    "loss on an output that is none": compile_digits("--loss", "aux=mse"),
    "loss in a file that is missing": compile_digits("--loss", "loss.onnx"),
    "accuracy without classes": accuracy_of_regression,
    "label missing": step({"image": IMAGES}, None),
    "label ignored where none is": step(IMAGES, LABELS - 100),
    "optimizer unknown": compile_digits("--optimizer", "adams"),
    "optimizer malformed": compile_digits("--optimizer", "sgd(momentum=0.9)"),
    "optimizer's option unknown": compile_digits("--optimizer", "sgd{lr=0.1}"),
    "optimizer's option no number": compile_digits("--optimizer", "sgd{momentum=high}"),
    "optimizer's option out of range": compile_digits("--optimizer", "sgd{momentum=1}"),
    "optimizer's option not finite": compile_digits("--optimizer", "sgd{weight_decay=nan}"),
    "optimizer's options at odds": compile_digits("--optimizer", "sgd{nesterov=true}"),
    "optimizer's option no switch": compile_digits("--optimizer", "rmsprop{centered=maybe}"),
    "group malformed": compile_digits("--group", "*.bias{weight-decay}"),
    "group without options": compile_digits("--group", "*.bias"),
    "group's option unknown": compile_digits("--group", "*.bias{beta1=0.5}"),
    "group's factor negative": compile_digits("--group", "*.bias{lr-factor=-1}"),
    "group matches nothing": compile_digits("--group", "layer9*{lr-factor=2}"),
    "Group: option unknown": group("*.bias", {"beta1": 0.5}),
    "clip-norm 0": compile_digits("--clip-norm", "0"),
    "clip-norm and clip-value": compile_digits("--clip-norm", "1", "--clip-value", "1"),
    "Update: two kinds of clipping": update(clip_norm=1.0, clip_value=2.0),
    "Update: a number as loss scale": update(loss_scale=128.0),
    "Update: accumulate 0": update(accumulate=0),
    "Update: accumulate a half": update(accumulate=2.5),
    "accumulate 0": compile_digits("--accumulate", "0"),
    "ema 1": compile_digits("--ema", "1"),
    "loss scale unknown": compile_digits("--loss-scale", "static"),
    "loss scale's option out of range": compile_digits("--loss-scale", "dynamic{interval=0}"),
    "schedule unknown": train("--schedule", "exponential"),
    "schedule's option unknown": train("--schedule", "cosine{every=3}"),
    "schedule's option missing": train("--schedule", "step"),
    "schedule's option out of range": train("--schedule", "step{every=0}"),
    "warmup negative": train("--warmup", "-1"),
    "averages that were not kept": train("--ema"),
    "Trainer: averages that were not kept": trainer(lambda it: it.parameters(ema=True)),
    "choice matches nothing": compile_digits("--train", "fc*", "layer9*"),
    "nothing to choose": compile_model(dense(node("Tanh", ["x"], "y"))),
    "choice unknown": compile_digits("--train", "first{k=2}"),
    "choice malformed": compile_digits("--train", "last{k}"),
    "choice's option unknown": compile_digits("--train", "bias{k=2}"),
    "choice's option no number": compile_digits("--train", "last{k=two}"),
    "last of too many layers": compile_digits("--train", "last{k=9}"),
    "last of no layer": compile_digits("--train", "last{k=0}"),
    "share of channels out of range": compile_digits("--train", "sparse{channels=0}"),
    "sparse update of a left operand": compile_model(LEFT_OPERAND, "--train", "sparse"),
    "sparse update in two places": compile_model(SHARED, "--train", "sparse"),
    "all frozen": compile_digits("--train", "fc*", "--freeze", "*"),
    "frozen matches nothing": compile_digits("--freeze", "layer9*"),
    "adapters malformed": compile_digits("--lora", "rank:8"),
    "adapters' option unknown": compile_digits("--lora", "dropout=0.1"),
    "adapters' option no number": compile_digits("--lora", "rank=8.5"),
    "adapters of rank 0": compile_digits("--lora", "rank=0"),
    "adapters' alpha not finite": compile_digits("--lora", "alpha=inf"),
    "adapters of too high a rank": compile_digits("--lora", "rank=33"),
    "adapters match nothing": compile_digits("--lora", "rank=2,targets=fc1*|layer9*"),
    "adapters of a left operand": compile_model(LEFT_OPERAND, "--lora", "rank=2"),
    "adapters of a trained weight": compile_digits(
        "--lora", "rank=2,targets=fc2*", "--train", "fc2*"
    ),
    "adapters of an artifact without": train("--export-adapters", "a.safetensors"),
    "adapters of another rank": load_adapters(),
    "adapters of another model": load_adapters(model_sha256="0"),
    "adapters damaged": load_adapters(b"adapters"),
    "adapters missing": load_adapters(b""),
    "export-training without an export": train("--export-training"),
    "no-verify without an export": train("--no-verify"),
    "no-merge without adapters": train("--export", "apart.onnx", "--no-merge"),
    "epochs 0": train("--epochs", "0"),
    "epochs and steps": train("--epochs", "1", "--steps", "2"),
    "threads 0": train("--threads", "0"),
    "threads above the target's": train("--threads", "9"),
    "threads of a target 0": compile_digits("--target", "host-cpu{threads=0}"),
    "cores unknown": train("--cores", "fast"),
    "core that is not there": train("--cores", "0,9999"),
    "more threads than cores": train("--cores", "0", "--threads", "2"),
    "core twice": train("--cores", "1,1"),
    "resume without a checkpoint": train("--resume"),
    "checkpoint-every without a checkpoint": train("--checkpoint-every", "5"),
    # data
    "data missing": train_file("data.npz"),
    "data is text": train_bytes(b"image,label\n1,2\n"),
    "data is empty": train_bytes(b""),
    "data truncated": train_bytes(b"PK\x03\x04" + bytes(100)),
    "data is one array": train_bytes(
        b"\x93NUMPY\x01\x00v\x00"
        + b"{'descr': '<f4', 'fortran_order': False, 'shape': (0,), }".ljust(117)
        + b"\n"
    ),
    "data is objects": train_on(x=np.array([{}, 1], object), y=LABELS),
    "data without labels": train_on(image=IMAGES),
    "data without the input": train_on(img=IMAGES, y=LABELS),
    "data of different lengths": train_on(x=IMAGES, y=LABELS[:-1]),
    "data of no samples": train_on(x=IMAGES[:0], y=LABELS[:0]),
    "data of too few samples": train_on(x=IMAGES[:5], y=LABELS[:5]),
    "data of another shape": train_on(x=IMAGES[:, :, 1:], y=LABELS),
    "data of another dtype": train_on(x=IMAGES.astype(complex), y=LABELS),
    "label out of range": train_on(x=IMAGES, y=np.arange(BATCH)),
    "label negative": train_on(x=IMAGES, y=LABELS - 1),
    "labels float": train_on(x=IMAGES, y=LABELS.astype(float)),
    "labels one-hot": train_on(x=IMAGES, y=np.eye(BATCH, 10, dtype=int)),
    "step: batch that does not match": step(IMAGES[1:], LABELS[1:]),
    "step: labels that do not match": step(IMAGES, LABELS[1:]),
    "step: wrong dtype": step(IMAGES.astype(str), LABELS),
    "step: wrong input name": step({"picture": IMAGES}, LABELS),
    "step: no input": step({}, LABELS),
    "step: a list of words": step(["a"], LABELS),
    "labels with an axis of one": train_on(x=IMAGES, y=LABELS[:, None]),
    "label of void pixels": step(IMAGES, LABELS * 0 + 255),
    "step: a pair as input": step((IMAGES, LABELS), None),
    "step: nothing as input": step(None, LABELS),
    "step: float64 beyond float32": step(IMAGES.astype(float) + 1e300, LABELS),
    "step: a masked array": step(np.ma.masked_array(IMAGES, mask=True), LABELS),
    "step: a label as learning rate": trainer(lambda it: it.step(IMAGES, IMAGES, LABELS)),
    "step: a label as learning rate, of one": trainer(
        lambda it: it.step(IMAGES, IMAGES, LABELS[:1])
    ),
    "step: a learning rate too many": trainer(lambda it: it.step(IMAGES, IMAGES, LABELS, lr=0.1)),
    "step: no learning rate": trainer(lambda it: it.step(IMAGES, LABELS)),
    "step: a text as learning rate": trainer(lambda it: it.step(IMAGES, LABELS, lr="0.1")),
    "evaluate: with labels": trainer(lambda it: it.evaluate(IMAGES, LABELS)),
    "evaluate: one sample": trainer(lambda it: it.evaluate(IMAGES[0])),
    "evaluate: nothing": trainer(lambda it: it.evaluate()),
    "train: no pairs": trainer(lambda it: list(it.train([IMAGES[:2]], lr=0.1))),
    "train: nothing": trainer(lambda it: list(it.train(None, lr=0.1))),
    "set_parameters: no mapping": trainer(lambda it: it.set_parameters(None)),
    "set_parameters: a weight that is none": trainer(
        lambda it: it.set_parameters({"conv9": np.ones(3)})
    ),
    "set_parameters: another shape": trainer(
        lambda it: it.set_parameters({"fc2.bias": np.ones(3, np.float32)})
    ),
    "set_parameters: another dtype": trainer(
        lambda it: it.set_parameters({"fc2.bias": np.ones(10, complex)})
    ),
    "learning rate infinite": train("--lr", "inf"),
    "learning rate not a number": train("--lr", "nan"),
    "learning rate beyond float32": train("--lr", "1e39"),
    "learning rate too high": diverging,
    # outputs
    "output's folder missing": compile_digits("-o", "no/x.odtc"),
    "output is a folder": compile_digits("-o", "."),
    "output is a device": compile_digits("-o", "/dev/full"),
    "output's folder is not writable": compile_digits("-o", "/proc/x.odtc"),
    "output's folder is a file": compile_to(lambda digits: digits.train / "x"),
    "output is the model": compile_to(lambda digits: digits.model),
    "checkpoint's folder missing": train("--checkpoint", "no/c"),
    "artifact on a full disk": on_small_disk(lambda path: compile_digits("-o", path)),
    "checkpoint on a full disk": on_small_disk(lambda path: train("--checkpoint", path)),
    "export on a full disk": on_small_disk(lambda path: train("--export", path)),
    "no room to compile in": with_small_temporary(compile_digits(), 512),
    "no room to unpack in": with_small_temporary(inspect_artifact, 64),
    "export is a folder": train("--export", ".."),
    # artifacts and checkpoints
    "artifact missing": lambda place: ["inspect", str(place.inputs / "a.odtc")],
    "artifact is no zip": artifact_bytes(lambda _: b"zip"),
    "artifact truncated": artifact_bytes(lambda data: data[: len(data) // 2]),
    "artifact: a byte of step.so": flipped("step.so"),
    "artifact: a byte of parameters.safetensors": flipped("parameters.safetensors"),
    "artifact: a byte of model.onnx": flipped("model.onnx"),
    "artifact: a byte of manifest.json": flipped("manifest.json", 0.0),
    "artifact: a byte, no checksum": artifact_bytes(lambda data: data[:2000] + b"~" + data[2001:]),
    "artifact without a library": artifact_members(lambda members: members.pop("step.so")),
    "artifact without a manifest": artifact_members(lambda members: members.pop("manifest.json")),
    "artifact with a path that leaves": artifact_members(moved_up),
    "artifact of another schema": manifest_with(schema=99),
    "artifact of another TVM": manifest_with(tvm="0.1"),
    "artifact: a byte of memory.json": flipped("memory.json"),
    "artifact with a strange plan": plan_with(extra=1),
    "artifact with a plan that is too small": plan_with(arena_bytes=64),
    "artifact with a plan of no calls": plan_with(calls=[]),
    "artifact with one plan too many": plans_with(lambda plans: plans * 2),
    "artifact without a step": manifest_with(plans=[]),
    "training within too few bytes": train("--memory-budget", "1KiB"),
    "training within no number of bytes": train("--memory-budget", "few"),
    "artifact with a strange manifest": manifest_with(extra=1),
    "artifact without hashes": manifest_with(files=[]),
    "checkpoint missing": train("--resume", "--checkpoint", "c"),
    "checkpoint empty": checkpoint_bytes(lambda _: b""),
    "checkpoint truncated": checkpoint_bytes(lambda data: data[:-9]),
    "checkpoint is text": checkpoint_bytes(lambda _: b"a checkpoint of another kind"),
    "checkpoint with a flipped bit": checkpoint_bytes(
        lambda data: data[:-1] + bytes([data[-1] ^ 1])
    ),
    "checkpoint of another run": checkpoint_of({"seed": "1", "data": "99 samples"}),
    "checkpoint of another program": foreign_checkpoint({"format": "pt"}, w=IMAGES),
    "checkpoint of another model": foreign_checkpoint(CHECKPOINT | {"model_sha256": "0"}, w=IMAGES),
    "checkpoint of another optimizer": foreign_checkpoint(
        CHECKPOINT | {"optimizer": "adam"}, w=IMAGES
    ),
    "checkpoint of another accumulation": foreign_checkpoint(
        CHECKPOINT | {"accumulate": "4"}, w=IMAGES
    ),
    "checkpoint of another step": foreign_checkpoint(CHECKPOINT, w=IMAGES),
    # memory plans
    "plot as a picture of another kind": plot_to("plan.png"),
    "plot without a folder": plot_to("none/plan.svg"),
    "plot on a full disk": on_small_disk(lambda path: plot_to(f"{path}.svg"), 4),
    "table missing": pack(None),
    "table is no text": pack(b"\xff\xfe\x00"),
    "table with an open quote": pack('id,lower,upper,size\n"a,0,1,2'),
    "table empty": pack(""),
    "table without sizes": pack("id,lower,upper\na,0,1"),
    "table with gaps": pack("id,lower,upper,size,gaps\na,0,9,4,3-5"),
    "table with a column twice": pack("id,lower,upper,size,size\na,0,1,2,2"),
    "table with a short row": pack("id,lower,upper,size\na,0,1,2\nb,0,1"),
    "table with a negative size": pack("id,lower,upper,size\na,0,1,-2"),
    "table with a size beyond all": pack(f"id,lower,upper,size\na,0,1,{2**40}"),
    "table with a life that ends before": pack("id,lower,upper,size\na,3,3,2"),
    "table with an alignment of 0": pack("id,lower,upper,size,alignment\na,0,3,2,0"),
    "table with an id twice": pack("id,lower,upper,size\na,0,1,2\nb,0,1,2\na,0,1,2"),
    "plan without a folder": pack("id,lower,upper,size\na,0,1,2", "-o", "none/plan.csv"),
    "plan of no bytes": pack("id,lower,upper,size", "-o", "plan.csv", "--capacity", "0"),
    "capacity too small": pack("id,lower,upper,size\na,0,1,9", "-o", "p.csv", "--capacity", "8"),
    "capacity not reached": pack(
        HARD_TABLE.read_bytes(), "-o", "p.csv", "--capacity", "986112", "--time-limit", "1"
    ),
    # the machine and devices
    "linker missing": without_linker,
    "device malformed": on_device("127.0.0.1:9190"),
    "device without a tracker": on_device("rpc://127.0.0.1:1/pixel"),
    "device at an impossible port": on_device("rpc://127.0.0.1:99999/pixel"),
    "device's host unknown": on_device("rpc://nowhere.invalid:9190/pixel"),
    "device behind a silent server": at_stranger(b""),
    "device behind another server": at_stranger(b"HTTP"),
    "artifact for another machine": for_another_machine,
    "device unknown to the tracker": on_device("rpc://{tracker}/pixel"),
    "device in use": at_device({}, free=False),
    "device that never answers": at_device(None),
    "device of another version": at_device({"tvm": "0.1", "abi": "32-bit little-endian"}),
    "device that goes as it is taken": at_device({}),
    "phone without adb": without_adb,
    # samples and profiles
    "period without a length": profile("--period", "0"),
    "profile to a missing folder": profile("--html", "missing/page.html"),
    "profile of no step": measured(profile_of_nothing),
    "profile before its end": measured(profile_too_early),
    "profile within a profile": measured(profile_within_another),
    "call of no steps": measured(lambda trainer: next(trainer.train([], 0.1, steps_per_call=0))),
    "samples before their end": measured(samples_too_early),
    "samples of a stock server": measured(stock_server),
    "log of another tool": measured(another_log),
    # sweeps
    "sweep of a model without a batch": sweep_of_a_model,
    "sweep of one artifact twice": sweep_of_the_same,
    "rows to a missing folder": sweep("-o", "missing/rows.jsonl"),
    "rows in a file of something else": sweep_into("battery: 80 %\n"),
    "rows of another sweep": sweep_into('{"sweep": {"steps": 5}}\n'),
    # comparisons
    "comparison with a stranger": comparison("--with", "jax"),
    "comparison with no data": comparison("--data", "nowhere.npz"),
    "comparison within no memory": comparison("--memory-limit", "much"),
    "comparison into rows of a sweep": comparison_into('{"sweep": {"steps": 5}}\n'),
    "comparison into another": comparison_into('{"comparison": {"steps": 5}}\n'),
    "comparison with other losses": other_losses,
    "bench of no suite": lambda _: ["bench", "--suite", "tx3"],
    "bench of a broken suite": bench_of("title = 1"),
    "bench of a stranger": lambda _: ["bench", "--suite", "zoo", "--models", "lenet"],
    "bench of what cannot be made": bench_of(
        'title = "x"\nmake = ["-c", "raise ValueError(5)"]\nroot = "."\n'
        'batches = [1]\nmodels = ["m"]\n'
    ),
    # reports
    "report of nothing": lambda _: ["report", "nowhere.jsonl"],
    "report of something else": report_of("battery: 80 %\n"),
    "report to a missing folder": lambda _: ["report", "x.jsonl", "-o", "missing/page.html"],
    # tuning
    "tuning for another machine": tune("--target", "android-cpu"),
    "tuning for no time": tune("--time", "soon"),
    "tuning a part that is none": tune("--part", "3/2"),
    "records below a file": tune_into_no_folder,
    "records that are something else": with_database("compile", "battery: 80 %\n"),
    "records that are not there": merge_nothing,
    # packages that are not installed
    "comparison without what it measures with": without("psutil", comparison()),
    "export of a module without PyTorch": without(
        "torch", lambda _: ["export", "builtins:int", "-o", "int.onnx"]
    ),
    # what an app is given
    "app of another platform": export_app("ios", "-o", "app"),
    "app without a name": export_app("linux", "-o", "app", "--name", "My Model"),
    "app's folder missing": export_app("linux", "-o", "no/app"),
    "app into a folder that is full": export_app("linux", "-o", "/usr"),
    "app on a full disk": on_small_disk(lambda path: export_app("linux", "-o", path)),
    **OF_PASSES,
}


ENTRY = re.compile(r"\[(?P<id>.+)\] (?P<kind>\w+), exit (?P<code>\d+)\n(?P<text>(?:.+\n)+)")
KINDS = {kind.__name__: kind for kind in error_kinds()}
EXPECTED = {
    match["id"]: match
    for match in ENTRY.finditer((Path(__file__).parent / "errors.txt").read_text("utf-8"))
}


def outcome(cause: Cause, place: Place, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """The exit code and the text of the error."""
    try:
        argv = cause(place)
    except OdtcError as error:
        return error.exit_code, str(error)
    assert argv is not None, "nothing went wrong"
    code = main(argv)
    captured = capsys.readouterr()
    assert not captured.out
    assert "Traceback" not in captured.err
    return code, captured.err.partition("error: ")[2].rstrip("\n")


def matches(expected: str, text: str) -> bool:
    """Whether a text is as expected, where `…` is anything within a line."""
    return bool(re.fullmatch(".*".join(map(re.escape, expected.split("…"))), text))


def test_each_cause_has_its_text_and_each_kind_its_cause():
    assert list(EXPECTED) == list(CAUSES)
    assert {match["kind"] for match in EXPECTED.values()} == KINDS.keys()


@pytest.mark.parametrize("name", CAUSES)
def test_error(name: str, place: Place, capsys: pytest.CaptureFixture[str]):
    expected = EXPECTED[name]
    code, text = outcome(CAUSES[name], place, capsys)
    for value, stand_in in place.names():
        text = text.replace(value, stand_in)
    assert code == int(expected["code"]) == KINDS[expected["kind"]].exit_code
    assert matches(expected["text"].rstrip("\n"), text), text
    gc.collect()  # a bundle's folder goes with it
    assert not place.files_left()


def damaged(data: bytes, rng: random.Random, hot: int) -> bytes:
    """A copy with some bytes changed or lost; most are near either end, where the structure is."""
    copy = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 5])):
        near = rng.choice([rng.randrange(hot), len(copy) - 1 - rng.randrange(hot)])
        at = rng.choice([near, near, rng.randrange(len(copy))])
        if rng.random() < 0.7:
            copy[at] = rng.randrange(256)
        else:
            del copy[at : at + rng.randrange(1, 4)]
    return bytes(copy)


def inspect(path: Path) -> None:
    """Does what `odtc inspect` does with a file."""
    import odtc
    from odtc.cli.model.inspect import describe
    from odtc.cli.model.memory import report

    artifact = odtc.load(path)
    describe(artifact.manifest, path)
    report(artifact.memory)


@pytest.mark.parametrize(
    ("use", "source", "hot"),
    [
        (lambda path: examine(str(path), parse_target("host-cpu"), StepOptions()), "model", 400),
        (inspect, "artifact", 300),
    ],
    ids=["check", "inspect"],
)
def test_a_damaged_file_is_read_or_refused(
    use: Callable[[Path], object], source: str, hot: int, place: Place
):
    data = getattr(place.digits, source).read_bytes()
    rng = random.Random(1)
    found: Counter[str] = Counter()
    for _ in range(150):
        path = place.write("damaged", damaged(data, rng, hot))
        try:
            use(path)
            found["read"] += 1
        except OdtcError:
            found["refused"] += 1
    assert found["read"] + found["refused"] == 150
    assert found["refused"] > 50
