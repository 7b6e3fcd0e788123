"""Ways to go wrong behind a compile: data, files, devices, measurements, apps."""

import numpy as np
import pandas

from benchmarks.packing.inputs import CAPACITY, FOLDER
from tests.cli.training.digits import BATCH
from tests.errors.causes import (
    IMAGES,
    LABELS,
    at_device,
    at_stranger,
    compile_digits,
    compile_to,
    diverging,
    export_app,
    for_another_machine,
    inspect_artifact,
    on_device,
    on_small_disk,
    pack,
    plot_to,
    predict,
    step,
    train,
    train_bytes,
    train_file,
    train_on,
    trainer,
    with_small_temporary,
    without,
    without_adb,
    without_labels,
    without_linker,
)
from tests.errors.damage import (
    CHECKPOINT,
    artifact_bytes,
    artifact_members,
    checkpoint_bytes,
    checkpoint_of,
    flipped,
    foreign_checkpoint,
    manifest_with,
    moved_up,
    plan_with,
    plans_with,
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
from tests.errors.place import Cause
from tests.errors.tuning import merge_nothing, tune, tune_into_no_folder, with_database

# Its plans are at least that high, and hard to make as low.
HARD_TABLE = FOLDER / f"D.{CAPACITY}.csv"

OF_RUNS: dict[str, Cause] = {
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
    "batches of several shapes": trainer(
        lambda it: it.fit([(IMAGES[:3], LABELS[:3]), (IMAGES[:3, :, 1:], LABELS[:3])], lr=0.1)
    ),
    "validation of no batches": trainer(
        lambda it: it.fit((IMAGES, LABELS), lr=0.1, validation=iter([]))
    ),
    "label out of range": train_on(x=IMAGES, y=np.arange(BATCH)),
    "label negative": train_on(x=IMAGES, y=LABELS - 1),
    "labels float": train_on(x=IMAGES, y=LABELS + 0.5),
    "labels missing": train_on(x=IMAGES, y=np.where(np.arange(BATCH) == 2, np.nan, LABELS)),
    "labels one-hot": train_on(x=IMAGES, y=np.eye(BATCH, 10, dtype=int)),
    "step: batch that does not match": step(IMAGES[1:], LABELS[1:]),
    "step: labels that do not match": step(IMAGES, LABELS[1:]),
    "step: wrong dtype": step(IMAGES.astype(str), LABELS),
    "step: wrong input name": step({"picture": IMAGES}, LABELS),
    "step: no input": step({}, LABELS),
    "step: a list of words": step(["a"], LABELS),
    "labels with an axis of one": step(IMAGES, LABELS[:, None]),
    "labels of words": train_on(x=IMAGES, y=np.array(["cat", "dog"] * (BATCH // 2))),
    "label of void pixels": step(IMAGES, LABELS * 0 + 255),
    "label that is missing in a list": step(IMAGES, [*LABELS[1:].tolist(), None]),
    "batches of arrays and frames": trainer(
        lambda it: it.fit([(pandas.DataFrame({"a": LABELS}), LABELS), (IMAGES, LABELS)], lr=0.1)
    ),
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
    "no label counts": without_labels,
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
    "checkpoint missing": trainer(lambda trainer: trainer.load_checkpoint("c")),
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
    "device of another build": at_device({"server": "native", "sources": "0123456789abcdef"}),
    "device that goes as it is taken": at_device({}),
    "phone without adb": without_adb,
    # samples and profiles
    "period without a length": profile("--period", "0"),
    "profile to a missing folder": profile("--html", "missing/page.html"),
    "profile at a length of one size": profile("--length", "4"),
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
    "report of a damaged plan": report_of('{"points": [{"arena_bytes": "few"}]}\n'),
    "report without an end": lambda _: ["report", "/dev/zero"],
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
    # what is predicted
    "predictions of another form": predict("-o", "scores.txt"),
    "predictions of an unknown output": predict("--output-names", "scores"),
    "predictions of two outputs in a table": predict("--output-names", "logits", "probabilities"),
}
