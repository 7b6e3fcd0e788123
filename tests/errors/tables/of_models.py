"""Ways to go wrong with a model."""

import numpy as np

from tests.errors.causes import (
    compile_as_is,
    compile_bytes,
    compile_digits,
    compile_layout,
    compile_linear,
    compile_model,
    forward,
    with_external_data,
)
from tests.errors.models import (
    DIVIDED_BY_ZERO,
    FED_MODE,
    FED_RATIO,
    LINEAR,
    TWO_GRADIENTS,
    WORDS,
    behind,
    dense,
    looping,
    node,
    sized,
    with_value,
)
from tests.errors.place import Cause

ROWS = np.ones((2, 4), np.float32)

WIDE = dense(node("MatMul", ["x", "w"], "y"), x=["N", "width"])

OF_MODELS: dict[str, Cause] = {
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
    "memory budget too small in mixed precision": compile_digits(
        "--memory-budget", "1KiB", "--target", "host-cpu{threads=1}", "--precision", "mixed"
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
}
