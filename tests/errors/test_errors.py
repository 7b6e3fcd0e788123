"""Every error that a user can cause: its exit code and its whole text.

One table. Each case is caused through the command line, or through the library where there is no
such option; either way it must be a clear text without a traceback, and leave no file behind.
"""

import random
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from odtc.cli.check import examine
from odtc.cli.main import main
from odtc.core.errors import (
    ArtifactError,
    DataError,
    DeviceError,
    ModelError,
    NumericError,
    OdtcError,
    OutputError,
    UnsupportedError,
    UsageError,
)
from tests.cli.digits import BATCH
from tests.errors.causes import (
    IMAGES,
    LABELS,
    LINEAR,
    Cause,
    Place,
    artifact_bytes,
    artifact_members,
    at_stranger,
    behind,
    checkpoint_bytes,
    compile_bytes,
    compile_digits,
    compile_model,
    dense,
    diverging,
    flipped,
    for_another_machine,
    foreign_checkpoint,
    inspect_artifact,
    manifest_with,
    moved_up,
    node,
    on_device,
    on_small_disk,
    step,
    train,
    train_bytes,
    train_file,
    train_on,
    with_external_data,
    with_small_temporary,
)

# Hints that several errors give.
EXPORT = "export the model again, and check that the file was copied whole"
PATH = "check the path"
CHECK = "`odtc check MODEL` lists every node"
COMPILE_HELP = "`odtc compile --help` shows what there is"
TRAIN_HELP = "`odtc train --help` shows what there is"
HELP = "`odtc --help` shows what there is"
SAVEZ = "save it with numpy.savez: an array for each input, and the labels as y"
CLASSES = "the model has 10 classes, counted from 0"
WHOLE = "feed whole batches, or compile for another --batch"
FOLDER = "choose a folder that exists, is writable, and has room"
AGAIN = "copy the artifact again, or compile the model again"
VERSION = "compile the model again with this version of odtc"
OTHER = "take another checkpoint, or start again without one"
TRACKER_HINT = "start the tracker, or check host and port"
LOWER = "give a lower one, such as 0.01"
URL = "write rpc://HOST:PORT/KEY, such as rpc://127.0.0.1:9190/pixel"
SHAPES = "check the batch size and the shapes that the model was exported with"
CHECKPOINT = "pass --checkpoint FILE"
ROOM = "make room there, or set TMPDIR to a folder that has some"


@dataclass(frozen=True)
class Case:
    """One way to go wrong.

    Attributes:
        id: what is wrong.
        cause: does it.
        kind: class of the error, which has the exit code.
        what: what the error says; `…` stands for anything within a line.
        where: what it names as the place; INPUTS, DIGITS, TMP and TRACKER change from run to run.
        hint: what it advises.
    """

    id: str
    cause: Cause
    kind: type[OdtcError]
    what: str
    where: str | None = None
    hint: str | None = None

    @property
    def text(self) -> str:
        """The whole text."""
        return str(self.kind(self.what, where=self.where, hint=self.hint))


MODELS = [
    Case(
        "model missing",
        lambda place: ["compile", str(place.inputs / "m.onnx")],
        ModelError,
        "the model file does not exist",
        where="INPUTS/m.onnx",
        hint=PATH,
    ),
    Case(
        "model is a folder",
        lambda place: ["check", str(place.inputs)],
        ModelError,
        "the model file does not exist",
        where="INPUTS",
        hint=PATH,
    ),
    Case(
        "model empty",
        compile_bytes(b""),
        ModelError,
        "the model file is empty (0 bytes)",
        where="INPUTS/m.onnx",
        hint=EXPORT,
    ),
    Case(
        "model truncated",
        compile_bytes(LINEAR.SerializeToString()[:150]),
        ModelError,
        "not a readable ONNX file (…)",
        where="INPUTS/m.onnx",
        hint=EXPORT,
    ),
    Case(
        "model random bytes",
        compile_bytes(bytes(range(7, 256)) * 4),
        ModelError,
        "not a readable ONNX file (…)",
        where="INPUTS/m.onnx",
        hint=EXPORT,
    ),
    Case(
        "model is text",
        compile_bytes(b"Dear model,\nplease train.\n"),
        ModelError,
        "not a readable ONNX file (…)",
        where="INPUTS/m.onnx",
        hint=EXPORT,
    ),
    Case(
        "model is JSON",
        compile_bytes(b'{"a": 1}', "m.json"),
        ModelError,
        "not a readable ONNX file (…)",
        where="INPUTS/m.json",
        hint=EXPORT,
    ),
    Case(
        "model is a picture",
        compile_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0"),
        ModelError,
        "not a readable ONNX file (…)",
        where="INPUTS/m.onnx",
        hint=EXPORT,
    ),
    Case(
        "unsupported operator",
        compile_model(
            dense(
                node("MatMul", ["x", "v"], "h"),
                node("Einsum", ["h", "w"], "y", equation="ij,jk->ik"),
            ),
            "--batch",
            "2",
        ),
        UnsupportedError,
        "1 of 2 nodes cannot be trained:\n  y (Einsum): unsupported: operator Einsum is not supported in this version",
        hint=CHECK,
    ),
    Case(
        "operator of another domain",
        compile_model(
            dense(node("MatMul", ["x", "w"], "h"), node("Fancy", ["h"], "y", domain="com.example")),
            "--batch",
            "2",
        ),
        UnsupportedError,
        "operator Fancy is of the domain 'com.example'; odtc reads ONNX's default operators only",
        where="node y",
        hint="export the model without custom or vendor operators",
    ),
    Case(
        "Clip on the trained path",
        compile_model(behind("Clip"), "--batch", "2"),
        UnsupportedError,
        "1 of 3 nodes cannot be trained:\n  a (Clip): unsupported: operator Clip is not supported in this version",
        hint=CHECK,
    ),
    Case(
        "Elu on the trained path",
        compile_model(behind("Elu"), "--batch", "2"),
        UnsupportedError,
        "1 of 3 nodes cannot be trained:\n  a (Elu): forward-only: no gradient in this version",
        hint=CHECK,
    ),
    Case(
        "shapes that do not fit",
        compile_model(
            dense(node("MatMul", ["x", "w"], "h"), node("MatMul", ["h", "v"], "y")), "--batch", "2"
        ),
        ModelError,
        "the model's shapes do not fit together: …node name: y…Incompatible dimensions…",
        hint=SHAPES,
    ),
    Case(
        "weights in a file that is missing",
        with_external_data("w.bin"),
        ModelError,
        "not a readable ONNX file (Data of TensorProto ( tensor name: w) should be stored in INPUTS/w.bin, but it is not regular file.)",
        where="INPUTS/m.onnx",
        hint=EXPORT,
    ),
    Case(
        "weights in a file outside",
        with_external_data("../../w.bin"),
        ModelError,
        "not a readable ONNX file (Data of TensorProto ( tensor name: w) should be file inside 'INPUTS', but '../../w.bin' points outside the directory.)",
        where="INPUTS/m.onnx",
        hint=EXPORT,
    ),
    Case(
        "operator unknown to ONNX",
        compile_model(behind("Nonsense"), "--batch", "2"),
        ModelError,
        "the model breaks the ONNX standard: No Op registered for Nonsense with domain_version of 17",
        where="INPUTS/m.onnx",
        hint=EXPORT,
    ),
    Case(
        "logits are no matrix",
        compile_model(
            dense(node("MatMul", ["x", "w"], "h"), node("ReduceSum", ["h"], "y", keepdims=0)),
            "--batch",
            "2",
        ),
        ModelError,
        "cross-entropy needs float32 logits [batch, classes]; the model gives y: float32[]",
        where="output y",
        hint="cut the model at its logits, or choose another loss",
    ),
    Case(
        "batch not given",
        compile_model(LINEAR),
        UsageError,
        "the model's batch dimension 'N' is symbolic",
        where="input x",
        hint="give the number of samples in a step, such as --batch 4",
    ),
    Case(
        "batch 0",
        compile_model(LINEAR, "--batch", "0"),
        UsageError,
        "batch 0 is outside [1, 1048576]",
        hint="pass --batch 4",
    ),
    Case(
        "batch negative",
        compile_model(LINEAR, "--batch", "-3"),
        UsageError,
        "batch -3 is outside [1, 1048576]",
        hint="pass --batch 4",
    ),
    Case(
        "batch is no number",
        compile_model(LINEAR, "--batch", "four"),
        UsageError,
        "argument --batch: invalid int value: 'four'",
        hint=COMPILE_HELP,
    ),
    Case(
        "other dimension not given",
        compile_model(dense(node("MatMul", ["x", "w"], "y"), x=["N", "width"]), "--batch", "2"),
        UsageError,
        "symbolic dimensions without a size: width",
        where="input x",
        hint="give each a size: --shape width=128",
    ),
    Case(
        "dimension without a name",
        compile_model(dense(node("MatMul", ["x", "w"], "y"), x=["N", ""]), "--batch", "2"),
        UsageError,
        "symbolic dimensions without a size: ?",
        where="input x",
        hint="give the dimension a name, or a size, where the model is exported",
    ),
    Case(
        "dimension unknown",
        compile_model(LINEAR, "--batch", "2", "--shape", "M=2"),
        UsageError,
        "the model has no symbolic dimension M",
        hint="it has N",
    ),
    Case(
        "dimension malformed",
        compile_model(LINEAR, "--shape", "N:2"),
        UsageError,
        "'N:2' is not the size of a dimension",
        hint="write NAME=N, such as sequence=128",
    ),
    Case(
        "dimension that does not fit",
        compile_model(
            dense(node("MatMul", ["x", "w"], "y"), x=["N", "width"]),
            "--batch",
            "2",
            "--shape",
            "width=5",
        ),
        ModelError,
        "the model's shapes do not fit together: …node name: y…Incompatible dimensions…",
        hint=SHAPES,
    ),
]
OPTIONS = [
    Case(
        "command unknown",
        lambda _: ["trian"],
        UsageError,
        "argument COMMAND: invalid choice: 'trian' (choose from 'compile', 'train', 'inspect', 'check', 'targets')",
        hint=HELP,
    ),
    Case(
        "command missing",
        lambda _: [],
        UsageError,
        "the following arguments are required: COMMAND",
        hint=HELP,
    ),
    Case(
        "option unknown",
        compile_digits("--fast"),
        UsageError,
        "unrecognized arguments: --fast",
        hint=HELP,
    ),
    Case(
        "target unknown",
        compile_digits("--target", "android-gpu"),
        UsageError,
        "unknown target 'android-gpu'",
        hint="did you mean android-cpu? known targets: host-cpu, linux-arm64-cpu, android-cpu, android-opencl, android-vulkan",
    ),
    Case(
        "target of a later version",
        compile_digits("--target", "android-opencl"),
        UnsupportedError,
        "odtc cannot compile for android-opencl: it comes with a later version of odtc",
        hint="choose one of host-cpu, linux-arm64-cpu, android-cpu",
    ),
    Case(
        "loss unknown",
        compile_digits("--loss", "[hinge]"),
        UsageError,
        "unknown loss '[hinge]'",
        hint="one of: cross-entropy",
    ),
    Case(
        "optimizer unknown",
        compile_digits("--optimizer", "adam"),
        UsageError,
        "unknown optimizer 'adam'",
        hint="one of: sgd",
    ),
    Case(
        "optimizer malformed",
        compile_digits("--optimizer", "sgd(momentum=0.9)"),
        UsageError,
        "cannot read the optimizer: it is not of the form name{key=value,key=value}",
        hint="write sgd or sgd{momentum=0.9,weight_decay=1e-4}",
    ),
    Case(
        "optimizer's option unknown",
        compile_digits("--optimizer", "sgd{lr=0.1}"),
        UsageError,
        "the optimizer sgd has no option 'lr'",
        hint="its options are momentum, weight_decay",
    ),
    Case(
        "optimizer's option no number",
        compile_digits("--optimizer", "sgd{momentum=high}"),
        UsageError,
        "the optimizer's option momentum is 'high', which is no number",
    ),
    Case(
        "optimizer's option out of range",
        compile_digits("--optimizer", "sgd{momentum=1}"),
        UsageError,
        "momentum 1.0 is outside [0, 1)",
    ),
    Case(
        "optimizer's option not finite",
        compile_digits("--optimizer", "sgd{weight_decay=nan}"),
        UsageError,
        "weight_decay nan is not a number of at least 0",
    ),
    Case(
        "params match nothing",
        compile_digits("--params", "fc*", "layer9*"),
        UsageError,
        "no trainable parameter matches 'layer9*'",
        hint="`odtc check MODEL` lists the parameters' names",
    ),
    Case(
        "epochs 0",
        train("--epochs", "0"),
        UsageError,
        "argument --epochs: '0' is not a whole number of at least 1",
        hint=TRAIN_HELP,
    ),
    Case(
        "epochs and steps",
        train("--epochs", "1", "--steps", "2"),
        UsageError,
        "argument --steps: not allowed with argument --epochs",
        hint=TRAIN_HELP,
    ),
    Case(
        "threads 0",
        train("--threads", "0"),
        UsageError,
        "threads 0 is below 1",
        hint="give a number from 1 to that of the cores",
    ),
    Case(
        "resume without a checkpoint",
        train("--resume"),
        UsageError,
        "--resume needs a checkpoint",
        hint=CHECKPOINT,
    ),
    Case(
        "checkpoint-every without a checkpoint",
        train("--checkpoint-every", "5"),
        UsageError,
        "--checkpoint-every needs a checkpoint",
        hint=CHECKPOINT,
    ),
]
DATA = [
    Case(
        "data missing",
        train_file("data.npz"),
        DataError,
        "the data file does not exist",
        where="INPUTS/data.npz",
        hint=PATH,
    ),
    Case(
        "data is text",
        train_bytes(b"image,label\n1,2\n"),
        DataError,
        "not an .npz file",
        where="INPUTS/data.npz",
        hint=SAVEZ,
    ),
    Case(
        "data is empty",
        train_bytes(b""),
        DataError,
        "not an .npz file",
        where="INPUTS/data.npz",
        hint=SAVEZ,
    ),
    Case(
        "data truncated",
        train_bytes(b"PK\x03\x04" + bytes(100)),
        DataError,
        "not an .npz file",
        where="INPUTS/data.npz",
        hint=SAVEZ,
    ),
    Case(
        "data is one array",
        train_bytes(
            b"\x93NUMPY\x01\x00v\x00"
            + b"{'descr': '<f4', 'fortran_order': False, 'shape': (0,), }".ljust(117)
            + b"\n"
        ),
        DataError,
        "not an .npz file",
        where="INPUTS/data.npz",
        hint=SAVEZ,
    ),
    Case(
        "data is objects",
        train_on(x=np.array([{}, 1], object), y=LABELS),
        DataError,
        "not a readable .npz file (Object arrays cannot be loaded when allow_pickle=False)",
        where="INPUTS/data.npz",
        hint=SAVEZ,
    ),
    Case(
        "data without labels",
        train_on(image=IMAGES),
        DataError,
        "the data has no array label (or y)",
        where="INPUTS/data.npz",
        hint="it has image",
    ),
    Case(
        "data without the input",
        train_on(img=IMAGES, y=LABELS),
        DataError,
        "the data has no array image (or x)",
        where="INPUTS/data.npz",
        hint="it has img, y",
    ),
    Case(
        "data of different lengths",
        train_on(x=IMAGES, y=LABELS[:-1]),
        DataError,
        "the arrays differ in length, or are empty: image 16, label 15",
        where="INPUTS/data.npz",
        hint="each needs one entry a sample",
    ),
    Case(
        "data of no samples",
        train_on(x=IMAGES[:0], y=LABELS[:0]),
        DataError,
        "the arrays differ in length, or are empty: image 0, label 0",
        where="INPUTS/data.npz",
        hint="each needs one entry a sample",
    ),
    Case(
        "data of too few samples",
        train_on(x=IMAGES[:5], y=LABELS[:5]),
        DataError,
        "the data holds 5 samples; a step takes 16",
        where="INPUTS/data.npz",
        hint="bring more, or compile with a --batch of at most 5",
    ),
    Case(
        "data of another shape",
        train_on(x=IMAGES[:, :, 1:], y=LABELS),
        DataError,
        "a sample of image has shape [1, 7, 8]; the step was compiled for [1, 8, 8]",
        where="INPUTS/data.npz",
        hint="reshape the array, samples first",
    ),
    Case(
        "data of another dtype",
        train_on(x=IMAGES.astype(complex), y=LABELS),
        DataError,
        "image is complex128; the step takes float32",
        where="input image",
        hint="convert it to float32",
    ),
    Case(
        "label out of range",
        train_on(x=IMAGES, y=np.arange(BATCH)),
        DataError,
        "label 10 is outside [0, 10)",
        where="label, sample 10",
        hint=CLASSES,
    ),
    Case(
        "label negative",
        train_on(x=IMAGES, y=LABELS - 1),
        DataError,
        "label -1 is outside [0, 10)",
        where="label, sample 0",
        hint=CLASSES,
    ),
    Case(
        "labels float",
        train_on(x=IMAGES, y=LABELS.astype(float)),
        DataError,
        "labels are float64; they must be integers",
        where="label",
        hint="number the classes from 0, and convert the labels to an integer dtype",
    ),
    Case(
        "labels one-hot",
        train_on(x=IMAGES, y=np.eye(BATCH, 10, dtype=int)),
        DataError,
        "label has shape [16, 10]; the step takes [16]",
        where="input label",
        hint=WHOLE,
    ),
    Case(
        "step: batch that does not match",
        step(IMAGES[1:], LABELS[1:]),
        DataError,
        "image has shape [15, 1, 8, 8]; the step takes [16, 1, 8, 8]",
        where="input image",
        hint=WHOLE,
    ),
    Case(
        "step: labels that do not match",
        step(IMAGES, LABELS[1:]),
        DataError,
        "label has shape [15]; the step takes [16]",
        where="input label",
        hint=WHOLE,
    ),
    Case(
        "step: wrong dtype",
        step(IMAGES.astype(str), LABELS),
        DataError,
        "image is <U32; the step takes float32",
        where="input image",
        hint="convert it to float32",
    ),
    Case(
        "step: wrong input name",
        step({"picture": IMAGES}, LABELS),
        DataError,
        "the inputs fed are picture",
        hint="feed image",
    ),
    Case(
        "step: no input", step({}, LABELS), DataError, "the inputs fed are none", hint="feed image"
    ),
    Case(
        "step: a list of words",
        step(["a"], LABELS),
        DataError,
        "image has shape [1]; the step takes [16, 1, 8, 8]",
        where="input image",
        hint=WHOLE,
    ),
    Case(
        "learning rate infinite",
        train("--lr", "inf"),
        DataError,
        "the learning rate inf is not a finite float32",
        where="lr",
        hint=LOWER,
    ),
    Case(
        "learning rate not a number",
        train("--lr", "nan"),
        DataError,
        "the learning rate nan is not a finite float32",
        where="lr",
        hint=LOWER,
    ),
    Case(
        "learning rate beyond float32",
        train("--lr", "1e39"),
        DataError,
        "the learning rate 1e+39 is not a finite float32",
        where="lr",
        hint=LOWER,
    ),
    Case(
        "learning rate too high",
        diverging,
        NumericError,
        "the loss is nan at step 2 (learning rate 3e+38)",
        hint="load the last checkpoint, and train with a lower learning rate",
    ),
]
OUTPUTS = [
    Case(
        "output's folder missing",
        compile_digits("-o", "no/x.odtc"),
        OutputError,
        "cannot write the file: No such file or directory",
        where="no/x.odtc",
        hint=FOLDER,
    ),
    Case(
        "output is a folder",
        compile_digits("-o", "."),
        OutputError,
        "cannot write the file: Is a directory",
        where=".",
        hint=FOLDER,
    ),
    Case(
        "output is a device",
        compile_digits("-o", "/dev/full"),
        OutputError,
        "cannot write the file: it is not a regular file",
        where="/dev/full",
        hint=FOLDER,
    ),
    Case(
        "output's folder is not writable",
        compile_digits("-o", "/proc/x.odtc"),
        OutputError,
        "cannot write the file: No such file or directory",
        where="/proc/x.odtc",
        hint=FOLDER,
    ),
    Case(
        "output's folder is a file",
        lambda place: compile_digits("-o", str(place.digits.train / "x"))(place),
        OutputError,
        "cannot write the file: Not a directory",
        where="DIGITS/train.npz/x",
        hint=FOLDER,
    ),
    Case(
        "output is the model",
        lambda place: compile_digits("-o", str(place.digits.model))(place),
        UsageError,
        "the output would replace the model",
        where="DIGITS/d.onnx",
    ),
    Case(
        "checkpoint's folder missing",
        train("--checkpoint", "no/c"),
        OutputError,
        "cannot write the file: No such file or directory",
        where="no/c",
        hint=FOLDER,
    ),
    Case(
        "artifact on a full disk",
        on_small_disk(lambda path: compile_digits("-o", path)),
        OutputError,
        "cannot write the file: No space left on device",
        where="INPUTS/disk/out",
        hint=FOLDER,
    ),
    Case(
        "checkpoint on a full disk",
        on_small_disk(lambda path: train("--checkpoint", path)),
        OutputError,
        "cannot write the file: No space left on device",
        where="INPUTS/disk/out",
        hint=FOLDER,
    ),
    Case(
        "export on a full disk",
        on_small_disk(lambda path: train("--export", path)),
        OutputError,
        "cannot write the file: No space left on device",
        where="INPUTS/disk/out",
        hint=FOLDER,
    ),
    Case(
        "no room to compile in",
        with_small_temporary(compile_digits(), 512),
        OutputError,
        "the folder for temporary files has 524288 bytes left; 67262676 are needed",
        where="INPUTS/disk",
        hint=ROOM,
    ),
    Case(
        "no room to unpack in",
        with_small_temporary(inspect_artifact, 64),
        OutputError,
        "cannot write: No space left on device",
        where="INPUTS/disk",
        hint="make room; TMPDIR chooses another folder for temporary files",
    ),
    Case(
        "export is a folder",
        train("--export", ".."),
        OutputError,
        "cannot write the file: Is a directory",
        where="..",
        hint=FOLDER,
    ),
]
ARTIFACTS = [
    Case(
        "artifact missing",
        lambda place: ["inspect", str(place.inputs / "a.odtc")],
        ArtifactError,
        "the artifact does not exist",
        where="INPUTS/a.odtc",
        hint=PATH,
    ),
    Case(
        "artifact is no zip",
        artifact_bytes(lambda _: b"zip"),
        ArtifactError,
        "not a whole odtc artifact (File is not a zip file)",
        where="INPUTS/a.odtc",
        hint=AGAIN,
    ),
    Case(
        "artifact truncated",
        artifact_bytes(lambda data: data[: len(data) // 2]),
        ArtifactError,
        "not a whole odtc artifact (File is not a zip file)",
        where="INPUTS/a.odtc",
        hint=AGAIN,
    ),
    Case(
        "artifact: a byte of step.so",
        flipped("step.so"),
        ArtifactError,
        "the artifact is damaged: step.so does not have the hash that it was made with",
        where="INPUTS/a.odtc",
        hint=AGAIN,
    ),
    Case(
        "artifact: a byte of parameters.safetensors",
        flipped("parameters.safetensors"),
        ArtifactError,
        "the artifact is damaged: parameters.safetensors does not have the hash that it was made with",
        where="INPUTS/a.odtc",
        hint=AGAIN,
    ),
    Case(
        "artifact: a byte of model.onnx",
        flipped("model.onnx"),
        ArtifactError,
        "the artifact is damaged: model.onnx does not have the hash that it was made with",
        where="INPUTS/a.odtc",
        hint=AGAIN,
    ),
    Case(
        "artifact: a byte of manifest.json",
        flipped("manifest.json"),
        ArtifactError,
        "not an odtc artifact: its manifest is damaged",
        where="INPUTS/a.odtc",
    ),
    Case(
        "artifact: a byte, no checksum",
        artifact_bytes(lambda data: data[:2000] + b"~" + data[2001:]),
        ArtifactError,
        "not a whole odtc artifact (Bad CRC-32 for file 'manifest.json')",
        where="INPUTS/a.odtc",
        hint=AGAIN,
    ),
    Case(
        "artifact without a library",
        artifact_members(lambda members: members.pop("step.so")),
        ArtifactError,
        "not a whole odtc artifact (\"There is no item named 'step.so' in the archive\")",
        where="INPUTS/a.odtc",
        hint=AGAIN,
    ),
    Case(
        "artifact without a manifest",
        artifact_members(lambda members: members.pop("manifest.json")),
        ArtifactError,
        "not a whole odtc artifact (\"There is no item named 'manifest.json' in the archive\")",
        where="INPUTS/a.odtc",
        hint=AGAIN,
    ),
    Case(
        "artifact with a path that leaves",
        artifact_members(moved_up),
        ArtifactError,
        "not a whole odtc artifact (\"There is no item named 'step.so' in the archive\")",
        where="INPUTS/a.odtc",
        hint=AGAIN,
    ),
    Case(
        "artifact of another schema",
        manifest_with(schema=99),
        ArtifactError,
        "the artifact has schema 99; this version of odtc reads schema 1",
        where="INPUTS/a.odtc",
        hint=VERSION,
    ),
    Case(
        "artifact of another TVM",
        manifest_with(tvm="0.1"),
        ArtifactError,
        "the artifact was compiled with TVM 0.1; this is TVM 0.27.0.post1",
        where="INPUTS/a.odtc",
        hint=VERSION,
    ),
    Case(
        "artifact with a strange manifest",
        manifest_with(extra=1),
        ArtifactError,
        "the artifact's manifest is damaged (TypeError: Manifest.__init__() got an unexpected keyword argument 'extra')",
        where="INPUTS/a.odtc",
        hint="compile the model again",
    ),
    Case(
        "artifact without hashes",
        manifest_with(files=[]),
        ArtifactError,
        "the artifact is damaged: step.so does not have the hash that it was made with",
        where="INPUTS/a.odtc",
        hint=AGAIN,
    ),
    Case(
        "checkpoint missing",
        train("--resume", "--checkpoint", "c"),
        ArtifactError,
        "the checkpoint does not exist",
        where="c",
        hint=PATH,
    ),
    Case(
        "checkpoint empty",
        checkpoint_bytes(lambda _: b""),
        ArtifactError,
        "the checkpoint is damaged (Error while deserializing header: header too small)",
        where="INPUTS/c",
        hint=OTHER,
    ),
    Case(
        "checkpoint truncated",
        checkpoint_bytes(lambda data: data[:-9]),
        ArtifactError,
        "the checkpoint is damaged (Error while deserializing header: incomplete metadata, file not fully covered)",
        where="INPUTS/c",
        hint=OTHER,
    ),
    Case(
        "checkpoint is text",
        checkpoint_bytes(lambda _: b"a checkpoint of another kind"),
        ArtifactError,
        "the checkpoint is damaged (Error while deserializing header: header too large)",
        where="INPUTS/c",
        hint=OTHER,
    ),
    Case(
        "checkpoint of another program",
        foreign_checkpoint({"format": "pt"}, w=IMAGES),
        ArtifactError,
        "not a checkpoint of odtc",
        where="INPUTS/c",
        hint=OTHER,
    ),
    Case(
        "checkpoint of another model",
        foreign_checkpoint(
            {"format": "odtc-checkpoint-1", "model_sha256": "0", "step": "1"}, w=IMAGES
        ),
        ArtifactError,
        "the checkpoint is of another model than d.onnx",
        where="INPUTS/c",
        hint="load it with an artifact compiled from the model that it was trained with",
    ),
    Case(
        "checkpoint of another step",
        foreign_checkpoint(
            {"format": "odtc-checkpoint-1", "model_sha256": "sha", "step": "1"}, w=IMAGES
        ),
        ArtifactError,
        "the checkpoint does not fit the step: 17 tensors differ, such as 'conv1.bias'",
        where="INPUTS/c",
        hint="compile with the optimizer and the parameters that it was trained with",
    ),
]
DEVICES = [
    Case(
        "device malformed",
        on_device("127.0.0.1:9190"),
        UsageError,
        "'127.0.0.1:9190' is not a device",
        hint=URL,
    ),
    Case(
        "device without a tracker",
        on_device("rpc://127.0.0.1:1/pixel"),
        DeviceError,
        "no RPC tracker answers: [Errno 111] Connection refused",
        where="rpc://127.0.0.1:1/pixel",
        hint=TRACKER_HINT,
    ),
    Case(
        "device at an impossible port",
        on_device("rpc://127.0.0.1:99999/pixel"),
        UsageError,
        "'rpc://127.0.0.1:99999/pixel' is not a device",
        hint=URL,
    ),
    Case(
        "device's host unknown",
        on_device("rpc://nowhere.invalid:9190/pixel"),
        DeviceError,
        "no RPC tracker answers: …",
        where="rpc://nowhere.invalid:9190/pixel",
        hint=TRACKER_HINT,
    ),
    Case(
        "device behind a silent server",
        at_stranger(b""),
        DeviceError,
        "no RPC tracker answers: timed out",
        where="rpc://127.0.0.1:45679/pixel",
        hint=TRACKER_HINT,
    ),
    Case(
        "device behind another server",
        at_stranger(b"HTTP"),
        DeviceError,
        "no RPC tracker answers: what answers there is not a tracker",
        where="rpc://127.0.0.1:45817/pixel",
        hint=TRACKER_HINT,
    ),
    Case(
        "artifact for another machine",
        for_another_machine,
        DeviceError,
        "the artifact is for aarch64 (android-cpu); this machine is x86_64",
        where="this machine",
        hint="give the device that it is for, or compile the model for this one",
    ),
    Case(
        "device unknown to the tracker",
        on_device("rpc://{tracker}/pixel"),
        DeviceError,
        "no free device 'pixel' within 1 s",
        where="rpc://TRACKER/pixel",
        hint="check that the device's server is registered at the tracker and not in use",
    ),
]


CASES = [*MODELS, *OPTIONS, *DATA, *OUTPUTS, *ARTIFACTS, *DEVICES]


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


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_error(case: Case, place: Place, capsys: pytest.CaptureFixture[str]):
    code, shown = outcome(case.cause, place, capsys)
    for value, name in place.names():
        shown = shown.replace(value, name)
    assert code == case.kind.exit_code
    assert matches(case.text, shown), shown
    assert not [path for path in place.outputs.rglob("*") if path.is_file()]


def test_an_error_goes_to_stderr_after_its_label(place: Place, capsys: pytest.CaptureFixture[str]):
    assert main(["check", "[red]m[/red].onnx"]) == ModelError.exit_code
    assert capsys.readouterr() == (
        "",
        "error: the model file does not exist\n  where: [red]m[/red].onnx\n  hint: check the path\n",
    )


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
    """What `odtc inspect` does with a file."""
    import odtc
    from odtc.cli.inspect import describe

    describe(odtc.load(path).manifest, path)


@pytest.mark.parametrize(
    ("use", "source", "hot"),
    [(lambda path: examine(str(path)), "model", 400), (inspect, "artifact", 300)],
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
        except OdtcError as error:
            assert str(error)
            found["refused"] += 1
    assert found["read"] + found["refused"] == 150
    assert found["refused"] > 50
