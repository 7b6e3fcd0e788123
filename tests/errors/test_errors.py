"""Every error that a user can cause: its exit code and its whole text.

One table. Each case is caused through the command line, or through the library where there is no
such option; either way it must be a clear text without a traceback, and leave no file behind.
"""

import re
from dataclasses import dataclass

import numpy as np
import pytest

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
    behind,
    checkpoint_bytes,
    compile_bytes,
    compile_digits,
    compile_model,
    dense,
    flipped,
    foreign_checkpoint,
    manifest_with,
    moved_up,
    node,
    on_device,
    step,
    train,
    train_bytes,
    train_file,
    train_on,
)

EXPORT = "\n  hint: export the model again, and check that the file was copied whole"


@dataclass(frozen=True)
class Case:
    """One way to go wrong.

    Attributes:
        id: what is wrong.
        cause: does it.
        kind: class of the error, which has the exit code.
        text: the whole text, in which `…` stands for anything in one line, and `INPUTS`,
            `DIGITS` and `TRACKER` for what changes from run to run.
    """

    id: str
    cause: Cause
    kind: type[OdtcError]
    text: str


MODELS = [
    Case("model missing", lambda place: ["compile", str(place.inputs / "m.onnx")], ModelError, ""),
    Case("model is a folder", lambda place: ["check", str(place.inputs)], ModelError, ""),
    Case("model empty", compile_bytes(b""), ModelError, ""),
    Case("model truncated", compile_bytes(LINEAR.SerializeToString()[:150]), ModelError, ""),
    Case("model random bytes", compile_bytes(bytes(range(7, 256)) * 4), ModelError, ""),
    Case("model is text", compile_bytes(b"Dear model,\nplease train.\n"), ModelError, ""),
    Case("model is JSON", compile_bytes(b'{"a": 1}', "m.json"), ModelError, ""),
    Case(
        "model is a picture", compile_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0"), ModelError, ""
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
        "",
    ),
    Case(
        "operator of another domain",
        compile_model(
            dense(node("MatMul", ["x", "w"], "h"), node("Fancy", ["h"], "y", domain="com.example")),
            "--batch",
            "2",
        ),
        UnsupportedError,
        "",
    ),
    Case(
        "Clip on the trained path",
        compile_model(behind("Clip"), "--batch", "2"),
        UnsupportedError,
        "",
    ),
    Case(
        "Elu on the trained path",
        compile_model(behind("Elu"), "--batch", "2"),
        UnsupportedError,
        "",
    ),
    Case(
        "shapes that do not fit",
        compile_model(behind("MatMul", "w"), "--batch", "2"),
        ModelError,
        "",
    ),
    Case(
        "operator unknown to ONNX",
        compile_model(behind("Nonsense"), "--batch", "2"),
        ModelError,
        "",
    ),
    Case(
        "logits are no matrix",
        compile_model(
            dense(node("MatMul", ["x", "w"], "h"), node("ReduceSum", ["h"], "y", keepdims=0)),
            "--batch",
            "2",
        ),
        ModelError,
        "",
    ),
    Case("batch not given", compile_model(LINEAR), UsageError, ""),
    Case("batch 0", compile_model(LINEAR, "--batch", "0"), UsageError, ""),
    Case("batch negative", compile_model(LINEAR, "--batch", "-3"), UsageError, ""),
    Case("batch is no number", compile_model(LINEAR, "--batch", "four"), UsageError, ""),
    Case(
        "other dimension not given",
        compile_model(dense(node("MatMul", ["x", "w"], "y"), x=["N", "width"]), "--batch", "2"),
        UsageError,
        "",
    ),
    Case(
        "dimension without a name",
        compile_model(dense(node("MatMul", ["x", "w"], "y"), x=["N", ""]), "--batch", "2"),
        UsageError,
        "",
    ),
    Case(
        "dimension unknown", compile_model(LINEAR, "--batch", "2", "--shape", "M=2"), UsageError, ""
    ),
    Case("dimension malformed", compile_model(LINEAR, "--shape", "N:2"), UsageError, ""),
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
        "",
    ),
]
OPTIONS = [
    Case("command unknown", lambda _: ["trian"], UsageError, ""),
    Case("command missing", lambda _: [], UsageError, ""),
    Case("option unknown", compile_digits("--fast"), UsageError, ""),
    Case("target unknown", compile_digits("--target", "android-gpu"), UsageError, ""),
    Case(
        "target of a later version",
        compile_digits("--target", "android-opencl"),
        UnsupportedError,
        "",
    ),
    Case("loss unknown", compile_digits("--loss", "[hinge]"), UsageError, ""),
    Case("optimizer unknown", compile_digits("--optimizer", "adam"), UsageError, ""),
    Case("optimizer malformed", compile_digits("--optimizer", "sgd(momentum=0.9)"), UsageError, ""),
    Case(
        "optimizer's option unknown", compile_digits("--optimizer", "sgd{lr=0.1}"), UsageError, ""
    ),
    Case(
        "optimizer's option no number",
        compile_digits("--optimizer", "sgd{momentum=high}"),
        UsageError,
        "",
    ),
    Case(
        "optimizer's option out of range",
        compile_digits("--optimizer", "sgd{momentum=1}"),
        UsageError,
        "",
    ),
    Case(
        "optimizer's option not finite",
        compile_digits("--optimizer", "sgd{weight_decay=nan}"),
        UsageError,
        "",
    ),
    Case("params match nothing", compile_digits("--params", "fc*", "layer9*"), UsageError, ""),
    Case("epochs 0", train("--epochs", "0"), UsageError, ""),
    Case("epochs and steps", train("--epochs", "1", "--steps", "2"), UsageError, ""),
    Case("threads 0", train("--threads", "0"), UsageError, ""),
    Case("resume without a checkpoint", train("--resume"), UsageError, ""),
    Case("checkpoint-every without a checkpoint", train("--checkpoint-every", "5"), UsageError, ""),
]
DATA = [
    Case("data missing", train_file("data.npz"), DataError, ""),
    Case("data is text", train_bytes(b"image,label\n1,2\n"), DataError, ""),
    Case("data is empty", train_bytes(b""), DataError, ""),
    Case("data truncated", train_bytes(b"PK\x03\x04" + bytes(100)), DataError, ""),
    Case(
        "data is one array",
        train_bytes(
            b"\x93NUMPY\x01\x00v\x00"
            + b"{'descr': '<f4', 'fortran_order': False, 'shape': (0,), }".ljust(117)
            + b"\n"
        ),
        DataError,
        "",
    ),
    Case("data is objects", train_on(x=np.array([{}, 1], object), y=LABELS), DataError, ""),
    Case("data without labels", train_on(image=IMAGES), DataError, ""),
    Case("data without the input", train_on(img=IMAGES, y=LABELS), DataError, ""),
    Case("data of different lengths", train_on(x=IMAGES, y=LABELS[:-1]), DataError, ""),
    Case("data of no samples", train_on(x=IMAGES[:0], y=LABELS[:0]), DataError, ""),
    Case("data of too few samples", train_on(x=IMAGES[:5], y=LABELS[:5]), DataError, ""),
    Case("data of another shape", train_on(x=IMAGES[:, :, 1:], y=LABELS), DataError, ""),
    Case("data of another dtype", train_on(x=IMAGES.astype(complex), y=LABELS), DataError, ""),
    Case("label out of range", train_on(x=IMAGES, y=np.arange(BATCH)), DataError, ""),
    Case("label negative", train_on(x=IMAGES, y=LABELS - 1), DataError, ""),
    Case("labels float", train_on(x=IMAGES, y=LABELS.astype(float)), DataError, ""),
    Case("labels one-hot", train_on(x=IMAGES, y=np.eye(BATCH, 10, dtype=int)), DataError, ""),
    Case("step: batch that does not match", step(IMAGES[1:], LABELS[1:]), DataError, ""),
    Case("step: labels that do not match", step(IMAGES, LABELS[1:]), DataError, ""),
    Case("step: wrong dtype", step(IMAGES.astype(str), LABELS), DataError, ""),
    Case("step: wrong input name", step({"picture": IMAGES}, LABELS), DataError, ""),
    Case("step: no input", step({}, LABELS), DataError, ""),
    Case("step: a list of words", step(["a"], LABELS), DataError, ""),
    Case("learning rate infinite", train("--lr", "inf"), DataError, ""),
    Case("learning rate not a number", train("--lr", "nan"), DataError, ""),
    Case("learning rate beyond float32", train("--lr", "1e39"), DataError, ""),
    Case("learning rate too high", train("--lr", "1e30", "--checkpoint", "c"), NumericError, ""),
]
OUTPUTS = [
    Case("output's folder missing", compile_digits("-o", "no/x.odtc"), OutputError, ""),
    Case("output is a folder", compile_digits("-o", "."), OutputError, ""),
    Case("output is a device", compile_digits("-o", "/dev/full"), OutputError, ""),
    Case("output's folder is not writable", compile_digits("-o", "/proc/x.odtc"), OutputError, ""),
    Case(
        "output's folder is a file",
        lambda place: compile_digits("-o", str(place.digits.train / "x"))(place),
        OutputError,
        "",
    ),
    Case(
        "output is the model",
        lambda place: compile_digits("-o", str(place.digits.model))(place),
        UsageError,
        "",
    ),
    Case("checkpoint's folder missing", train("--checkpoint", "no/c"), OutputError, ""),
    Case("export is a folder", train("--export", ".."), OutputError, ""),
]
ARTIFACTS = [
    Case(
        "artifact missing",
        lambda place: ["inspect", str(place.inputs / "a.odtc")],
        ArtifactError,
        "",
    ),
    Case("artifact is no zip", artifact_bytes(lambda _: b"zip"), ArtifactError, ""),
    Case(
        "artifact truncated", artifact_bytes(lambda data: data[: len(data) // 2]), ArtifactError, ""
    ),
    *(
        Case(f"artifact: a byte of {member}", flipped(member), ArtifactError, "")
        for member in ("step.so", "parameters.safetensors", "model.onnx")
    ),
    Case("artifact: a byte of manifest.json", flipped("manifest.json"), ArtifactError, ""),
    Case(
        "artifact: a byte, no checksum",
        artifact_bytes(lambda data: data[:2000] + b"~" + data[2001:]),
        ArtifactError,
        "",
    ),
    Case(
        "artifact without a library",
        artifact_members(lambda members: members.pop("step.so")),
        ArtifactError,
        "",
    ),
    Case(
        "artifact without a manifest",
        artifact_members(lambda members: members.pop("manifest.json")),
        ArtifactError,
        "",
    ),
    Case("artifact with a path that leaves", artifact_members(moved_up), ArtifactError, ""),
    Case("artifact of another schema", manifest_with(schema=99), ArtifactError, ""),
    Case("artifact of another TVM", manifest_with(tvm="0.1"), ArtifactError, ""),
    Case("artifact with a strange manifest", manifest_with(extra=1), ArtifactError, ""),
    Case("artifact without hashes", manifest_with(files=[]), ArtifactError, ""),
    Case("checkpoint missing", train("--resume", "--checkpoint", "c"), ArtifactError, ""),
    Case("checkpoint empty", checkpoint_bytes(lambda _: b""), ArtifactError, ""),
    Case("checkpoint truncated", checkpoint_bytes(lambda data: data[:-9]), ArtifactError, ""),
    Case(
        "checkpoint is text",
        checkpoint_bytes(lambda _: b"a checkpoint of another kind"),
        ArtifactError,
        "",
    ),
    Case(
        "checkpoint of another program",
        foreign_checkpoint({"format": "pt"}, w=IMAGES),
        ArtifactError,
        "",
    ),
    Case(
        "checkpoint of another model",
        foreign_checkpoint(
            {"format": "odtc-checkpoint-1", "model_sha256": "0", "step": "1"}, w=IMAGES
        ),
        ArtifactError,
        "",
    ),
    Case(
        "checkpoint of another step",
        foreign_checkpoint(
            {"format": "odtc-checkpoint-1", "model_sha256": "sha", "step": "1"}, w=IMAGES
        ),
        ArtifactError,
        "",
    ),
]
DEVICES = [
    Case("device malformed", on_device("127.0.0.1:9190"), UsageError, ""),
    Case("device without a tracker", on_device("rpc://127.0.0.1:1/pixel"), DeviceError, ""),
    Case("device at an impossible port", on_device("rpc://127.0.0.1:99999/pixel"), DeviceError, ""),
    Case("device's host unknown", on_device("rpc://nowhere.invalid:9190/pixel"), DeviceError, ""),
    Case("device unknown to the tracker", on_device("rpc://{tracker}/pixel"), DeviceError, ""),
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


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_error(case: Case, place: Place, capsys: pytest.CaptureFixture[str]):
    code, text = outcome(case.cause, place, capsys)
    import json

    for a, b in (
        (str(place.inputs), "INPUTS"),
        (str(place.digits.model.parent), "DIGITS"),
        (place.tracker, "TRACKER"),
    ):
        text = text.replace(a, b)
    with open("/tmp/w/out.jsonl", "a") as f:
        f.write(
            json.dumps(
                [
                    case.id,
                    case.kind.__name__,
                    case.kind.exit_code == code,
                    code,
                    text,
                    [str(p) for p in place.outputs.iterdir()],
                    [str(p) for p in (place.outputs.parent / "temporary").iterdir()],
                ]
            )
            + "\n"
        )
