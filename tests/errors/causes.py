"""Ways to go wrong: models that cannot be trained, damaged files, devices that do not answer."""

import os
import platform
import socket
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import onnx
from onnx import TensorProto

from tests.cli.training.digits import BATCH, Digits
from tests.errors.models import LINEAR
from tests.errors.place import Argv, Cause, Place

# A target that this machine cannot run.
OTHER_TARGET = "android-cpu" if platform.machine() == "x86_64" else "host-cpu{mcpu=x86-64-v3}"


def without(package: str, cause: Cause) -> Cause:
    """The same where a package cannot be imported."""

    def blocked(place: Place) -> Argv | None:
        there = import_module(package)
        sys.modules[package] = None  # type: ignore[assignment]
        place.stack.callback(sys.modules.__setitem__, package, there)
        return cause(place)

    return blocked


def compile_bytes(data: bytes, name: str = "m.onnx") -> Cause:
    """`odtc compile` of a file that holds these bytes."""
    return lambda place: ["compile", str(place.write(name, data)), "--batch", "2"]


def compile_model(model: onnx.ModelProto, *options: str) -> Cause:
    """`odtc compile` of a model, with a batch of 2."""
    return compile_as_is(model, "--batch", "2", *options)


def compile_linear(*options: str) -> Cause:
    """`odtc compile` of a model that could be compiled."""
    return compile_as_is(LINEAR, *options)


def compile_as_is(model: onnx.ModelProto, *options: str) -> Cause:
    """`odtc compile` of a model, with these options only."""
    data = model.SerializeToString()
    return lambda place: ["compile", str(place.write("m.onnx", data)), *options]


def compile_to(output: Callable[[Digits], Path]) -> Cause:
    """`odtc compile` of the digits model to a path beside it."""
    return lambda place: compile_digits("-o", str(output(place.digits)))(place)


def compile_digits(*options: str) -> Cause:
    """`odtc compile` of the digits model."""
    return lambda place: ["compile", str(place.digits.model), "--batch", "2", *options]


def compile_layout(plan: str, *options: str) -> Cause:
    """`odtc compile` of the digits model with a plan of layouts."""

    def cause(place: Place) -> Argv:
        path = place.write("plan.txt", plan.encode())
        return [*compile_digits(*options)(place), "--layout", str(path)]

    return cause


def train(*options: str) -> Cause:
    """`odtc train` on the digits."""

    def cause(place: Place) -> Argv:
        files = place.digits
        return ["train", str(files.artifact), "--data", str(files.train), "--lr", "0.1", *options]

    return cause


def train_on(**arrays: np.ndarray) -> Cause:
    """`odtc train` on these arrays."""

    def cause(place: Place) -> Argv:
        np.savez(place.inputs / "data.npz", **arrays)
        return train_file("data.npz")(place)

    return cause


def train_bytes(data: bytes, name: str = "data.npz") -> Cause:
    """`odtc train` on a file that holds these bytes."""

    def cause(place: Place) -> Argv:
        place.write(name, data)
        return train_file(name)(place)

    return cause


def train_file(name: str) -> Cause:
    """`odtc train` on that file."""

    def cause(place: Place) -> Argv:
        data = str(place.inputs / name)
        return ["train", str(place.digits.artifact), "--data", data, "--lr", "0.1"]

    return cause


def on_device(url: str) -> Cause:
    """`odtc train` there; `{tracker}` is one that knows no device."""
    return lambda place: train("--device", url.format(tracker=place.tracker))(place)


def step(x: Any, y: Any, lr: float = 0.1) -> Cause:
    """One step of training."""

    def cause(place: Place) -> None:
        import odtc

        odtc.load(place.digits.artifact).trainer().step(x, y, lr)

    return cause


def trainer(use: Callable[[Any], object]) -> Cause:
    """Something done with a trainer."""

    def cause(place: Place) -> None:
        import odtc

        use(odtc.load(place.digits.artifact).trainer())

    return cause


def group(glob: str, options: dict[str, float]) -> Cause:
    """An update with a parameter group."""

    def cause(_: Place) -> None:
        import odtc

        odtc.Update(odtc.SGD(), groups=[odtc.Group(glob, options)])

    return cause


def update(**options: Any) -> Cause:
    """The options of an update."""

    def cause(_: Place) -> None:
        import odtc

        odtc.Update(odtc.SGD(), **options)

    return cause


IMAGES = np.ones((BATCH, 1, 8, 8), np.float32)
LABELS = np.zeros(BATCH, np.int64)


def plot_to(path: str) -> Cause:
    """`odtc inspect --plot` of the whole artifact."""
    return lambda place: ["inspect", str(place.digits.artifact), "--plot", path]


def forward(model: onnx.ModelProto, inputs: Any, device: str = "CPU") -> Cause:
    """A model run forward by ONNX's own interface of a backend."""

    def cause(_: Place) -> None:
        from odtc import onnx_backend

        onnx_backend.run_model(model, inputs, device)

    return cause


def on_small_disk(cause: Callable[[str], Cause], kilobytes: int = 64) -> Cause:
    """The cause, for a file on a disk that is too small for it."""
    return lambda place: cause(str(place.small_disk(kilobytes) / "out"))(place)


def with_small_temporary(cause: Cause, kilobytes: int) -> Cause:
    """The cause, with a small disk for temporary files."""

    def run(place: Place) -> Argv | None:
        tempfile.tempdir = str(place.small_disk(kilobytes))
        return cause(place)

    return run


def inspect_artifact(place: Place) -> Argv:
    """`odtc inspect` of the whole artifact."""
    return ["inspect", str(place.digits.artifact)]


def export_app(platform: str, *options: str) -> Cause:
    """`odtc export-app` of the artifact, which is for this machine."""
    return lambda place: [
        *("export-app", str(place.digits.artifact), "--platform", platform, *options)
    ]


def predict(*options: str) -> Cause:
    """`odtc predict` of the digits."""
    return lambda place: [
        *("predict", str(place.digits.artifact), "--data", str(place.digits.test), *options)
    ]


def at_stranger(greeting: bytes) -> Cause:
    """`odtc train` on a server that is no tracker, and that says this, or nothing, when called."""

    def cause(place: Place) -> Argv:
        server = place.stack.enter_context(socket.create_server(("127.0.0.1", 0)))

        def serve() -> None:
            connection, _ = server.accept()
            place.stack.callback(connection.close)
            connection.sendall(greeting)

        thread = threading.Thread(target=serve)
        thread.start()
        place.stack.callback(thread.join)
        return train("--device", f"rpc://127.0.0.1:{server.getsockname()[1]}/pixel")(place)

    return cause


def without_adb(place: Place) -> Argv:
    """`odtc train` on a phone where no adb is."""
    place.stack.enter_context(mock.patch.dict(os.environ, {"PATH": str(place.inputs)}))
    return train("--device", "adb://0123456789")(place)


def at_device(answer: dict[str, Any] | None, *, free: bool = True) -> Cause:
    """`odtc train` on a device that says this of itself, or nothing, and then goes."""

    def cause(place: Place) -> Argv:
        from tvm.rpc import base

        from odtc.runtime_rpc.server.net import wire
        from odtc.runtime_rpc.tracker.greeting import own_versions

        device = place.stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        host, _, port = place.tracker.partition(":")
        tracker = place.stack.enter_context(socket.create_connection((host, int(port))))
        tracker.sendall(wire.number(base.RPC_TRACKER_MAGIC))
        base.recvall(tracker, 4)
        info = {"key": "server:pixel", "addr": device.getsockname()}
        messages: list[list] = [[base.TrackerCode.UPDATE_INFO, info]]
        if free:
            at = (device.getsockname()[1], "pixel:1")
            messages.append([base.TrackerCode.PUT, "pixel", at, "127.0.0.1"])
        for message in messages:
            base.sendjson(tracker, message)
            base.recvjson(tracker)

        def serve() -> None:
            with suppress(OSError):
                asked, _ = device.accept()
                place.stack.callback(asked.close)
                if answer is not None:
                    asked.sendall(wire.frame(own_versions() | answer))
                    device.accept()[0].close()

        threading.Thread(target=serve, daemon=True).start()
        return train("--device", f"rpc://{place.tracker}/pixel")(place)

    return cause


def for_another_machine(place: Place) -> None:
    """An artifact for phones, run here."""
    import odtc

    odtc.compile(place.digits.model, OTHER_TARGET, batch=2).trainer()


def diverging(place: Place) -> Argv:
    """`odtc train` with a step so long that the logits leave float32."""
    import odtc

    model = place.write("linear.onnx", LINEAR.SerializeToString())
    odtc.compile(model, batch=2).save(place.inputs / "linear.odtc")
    np.savez(place.inputs / "xy.npz", x=np.full((4, 4), 9, np.float32), y=np.arange(4) % 3)
    files = [str(place.inputs / "linear.odtc"), "--data", str(place.inputs / "xy.npz")]
    return ["train", *files, "--lr", "3e38", "--epochs", "9", "--checkpoint", "c"]


def without_labels(place: Place) -> Argv:
    """`odtc train` where the loss ignores each label."""
    import odtc

    model = place.write("linear.onnx", LINEAR.SerializeToString())
    loss = odtc.CrossEntropy(ignore_index=-100)
    odtc.compile(model, batch=2, loss=loss).save(place.inputs / "linear.odtc")
    y = np.full(4, -100)
    np.savez(place.inputs / "xy.npz", x=np.ones((4, 4), np.float32), y=y)
    files = [str(place.inputs / "linear.odtc"), "--data", str(place.inputs / "xy.npz")]
    return ["train", *files, "--lr", "0.1", "--epochs", "3", "--checkpoint", "c"]


def unfit_metric(place: Place) -> Argv:
    """`odtc train` with a metric of numbers where labels are class numbers."""
    return train("--validation", str(place.digits.test), "--metrics", "mae")(place)


def pack(table: str | bytes | None, *options: str) -> Cause:
    """`odtc pack` of a table of buffers, if there is one."""

    def cause(place: Place) -> Argv:
        path = place.inputs / "buffers.csv"
        if table is not None:
            place.write(path.name, table.encode() if isinstance(table, str) else table)
        return ["pack", str(path), *(options or ("-o", "plan.csv"))]

    return cause


def without_linker(place: Place) -> Argv:
    """`odtc compile` on a machine that has no linker."""
    place.stack.enter_context(mock.patch("odtc.backends.objects.link._CANDIDATES", ()))
    return compile_digits()(place)


def with_external_data(location: str) -> Cause:
    """`odtc compile` of a model whose weight `w` is in another file, which is not there."""
    model = onnx.ModelProto()
    model.CopyFrom(LINEAR)
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=location)
    return compile_model(model)
