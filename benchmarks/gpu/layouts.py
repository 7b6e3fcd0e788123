"""The gain of images with channels last on a GPU: `python -m benchmarks.gpu.layouts`.

Convolutions of one tap, a rectifier after each, as a chain: with channels second as odtc has them
on GPUs; and with channels last, which makes each of them, and both of its gradients, one dense
matrix product. A step of both is prepared where TVM's compiler is, and timed where the GPU is, in
turns after their losses agree.
"""

import argparse
import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from benchmarks.gpu.steps import OdtcStep, kind_of
from benchmarks.options import positive
from benchmarks.output import (
    about,
    add_files,
    introduce,
    numbers_table,
    panels,
    save_figure,
    terminal,
    write_json,
)
from odtc.comparison.measures.measure import spread

# Channels and side of the images, as of ResNet-50, SqueezeNet and MobileNetV2.
SHAPES = ("64x56", "256x28", "256x14", "1024x14", "512x7", "160x7")
FORMS = ("second", "last")
TARGET = "host-opencl{mcpu=x86-64-v3}"
# Convolutions of a chain, and classes after it.
_LENGTH, _CLASSES = 8, 10
# By which losses may differ, of themselves.
_PARITY, _PARITY_STEPS, _WARM_UP = 1e-4, 3, 8


@dataclass(frozen=True)
class LayoutRow:
    """A chain with both layouts.

    Attributes:
        through: the interface of the GPU.
        channels, side: of its images.
        flops: of a step's products.
        second, last: seconds of each round, on the device.
    """

    through: str
    channels: int
    side: int
    flops: int
    second: list[float]
    last: list[float]

    @property
    def ratios(self) -> list[float]:
        """How many times as fast channels last are, by round."""
        return [one / other for one, other in zip(self.second, self.last, strict=True)]


def weights_of(channels: int) -> dict[str, np.ndarray]:
    """Weights of a chain, input channels first: values stay about as large from layer to layer."""
    rng = np.random.default_rng(0)
    sizes = {f"w{number}": channels for number in range(_LENGTH)} | {"out": _CLASSES}
    return {
        name: (rng.standard_normal((channels, size)) * (2 / channels) ** 0.5).astype(np.float32)
        for name, size in sizes.items()
    }


def images_of(batch: int, channels: int, side: int) -> np.ndarray:
    """Drawn images, channels last."""
    shape = (batch, side, side, channels)
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


def arranged(name: str, array: np.ndarray, form: str) -> np.ndarray:
    """A weight, or the images `x`, as a form takes it."""
    if form == "last":
        return array.reshape(-1, array.shape[-1]) if name == "x" else array
    if name == "x":
        return array.transpose(0, 3, 1, 2)
    return array if name == "out" else array.T[:, :, None, None]


def chain(batch: int, channels: int, side: int, form: str) -> onnx.ModelProto:
    """The model of a form."""
    weights = {name: arranged(name, a, form) for name, a in weights_of(channels).items()}
    operator = "Conv" if form == "second" else "MatMul"
    nodes, data = [], "x"
    for number in range(_LENGTH):
        nodes += [
            helper.make_node(operator, [data, f"w{number}"], [f"c{number}"]),
            helper.make_node("Relu", [f"c{number}"], [f"r{number}"]),
        ]
        data = f"r{number}"
    if form == "second":
        nodes += [
            helper.make_node("GlobalAveragePool", [data], ["means"]),
            helper.make_node("Flatten", ["means"], ["flat"]),
        ]
    else:
        weights["by_image"] = np.array([batch, side * side, channels], np.int64)
        nodes += [
            helper.make_node("Reshape", [data, "by_image"], ["images"]),
            helper.make_node("ReduceMean", ["images"], ["flat"], axes=[1], keepdims=0),
        ]
    nodes.append(helper.make_node("MatMul", ["flat", "out"], ["y"]))
    shape = arranged("x", images_of(batch, channels, side), form).shape
    graph = helper.make_graph(
        nodes,
        form,
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [batch, _CLASSES])],
        [numpy_helper.from_array(np.ascontiguousarray(a), name) for name, a in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def prepare(folder: Path, target: str, batch: int, shape: str) -> None:
    """Compiles a chain with both layouts."""
    # Where the GPU is, there may be no compiler.
    import odtc
    from benchmarks.gpu.prepare import copy_runtime, write_step

    channels, side = sizes_of(shape)
    copy_runtime(folder)
    for form in FORMS:
        with tempfile.TemporaryDirectory() as made:
            onnx.save(chain(batch, channels, side, form), Path(made, "model.onnx"))
            artifact = odtc.compile(Path(made, "model.onnx"), target=target)
        said = {"batch": batch, "channels": channels, "side": side, "form": form}
        write_step(artifact, folder / f"{kind_of({'target': target})}-{shape}" / form, said)


def sizes_of(shape: str) -> tuple[int, int]:
    """Channels and side of the images.

    Raises:
        ArgumentTypeError: the text names none.
    """
    channels, cross, side = shape.partition("x")
    if not (cross and channels.isdecimal() and side.isdecimal()):
        raise argparse.ArgumentTypeError(f"{shape!r} is not CHANNELSxSIDE, such as 256x14")
    return int(channels), int(side)


def measured(folder: Path, rounds: int) -> LayoutRow:
    """The row of a prepared chain.

    Raises:
        ValueError: the losses of both forms differ.
    """
    steps, said = [], {}
    for form in FORMS:
        said = json.loads((folder / form / "step.json").read_text(encoding="utf-8"))
        step = OdtcStep(folder / form, lr=1e-3)
        images = images_of(said["batch"], said["channels"], said["side"])
        label = np.arange(said["batch"]) % _CLASSES
        steps.append((step, {"x": arranged("x", images, form)}, label))
    losses = [[step(*fed) for _ in range(_PARITY_STEPS)] for step, *fed in steps]
    if not np.allclose(*losses, rtol=_PARITY, atol=0):
        raise ValueError(f"{folder.name}: losses differ: {losses}")
    seconds: list[list[float]] = [[], []]
    for turn in range(_WARM_UP + rounds):
        for (step, *_), samples in zip(steps, seconds, strict=True):
            seconds_of_it = step.device_seconds()
            if turn >= _WARM_UP:
                samples.append(seconds_of_it)
    channels, side = said["channels"], said["side"]
    flops = 3 * 2 * _LENGTH * said["batch"] * side * side * channels * channels
    return LayoutRow(kind_of(said), channels, side, flops, *seconds)


def draw(found: Sequence[LayoutRow], title: str, path: Path) -> None:
    """Writes a bar for each chain as SVG: how many times as fast channels last are."""
    figure, (panel,) = panels(1, 1, (8, 1.2 + 0.3 * len(found)))
    every = [spread(row.ratios) for row in found]
    middle = [each.median for each in every]
    ends = [
        [each.median - each.lower for each in every],
        [each.upper - each.median for each in every],
    ]
    bars = panel.barh([_name(row) for row in found], middle, xerr=ends)
    panel.bar_label(bars, fmt="%.2f", padding=6, fontsize=7)
    panel.set_xlabel("channels last, times as fast as second: median and quartiles")
    panel.margins(x=0.12)
    panel.invert_yaxis()
    save_figure(figure, title, path)


def _name(row: LayoutRow) -> str:
    return f"{row.through}, {row.channels} channels, {row.side} x {row.side}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.layouts", description=__doc__)
    ways = parser.add_subparsers(dest="way", required=True, metavar="prepare|run")
    first = ways.add_parser("prepare", help="compile the steps of both layouts")
    first.add_argument("folder", type=Path)
    first.add_argument("--shapes", default=",".join(SHAPES), metavar="", help="joined by commas")
    first.add_argument("--batch", type=positive, default=32, metavar="", help="images; 32")
    first.add_argument("--target", default=TARGET, metavar="", help="what to compile for")
    second = ways.add_parser("run", help="time what was prepared")
    second.add_argument("folder", type=Path)
    second.add_argument("--rounds", type=positive, default=30, metavar="", help="of each; 30")
    add_files(second, "gpu-layouts", ["picture"])
    return parser


def main() -> None:
    """Prepares, or measures and prints."""
    options = _parser().parse_args()
    if options.way == "prepare":
        for shape in options.shapes.split(","):
            prepare(options.folder, options.target, options.batch, shape)
        return
    paths = sorted(path.parent.parent for path in options.folder.glob("*/last/step.json"))
    found = [measured(path, options.rounds) for path in paths]
    table = numbers_table("chain", "second, ms", "last, ms", "times as fast", "TFLOP/s")
    for row in found:
        times = [spread(each).text(scale=1e3) for each in (row.second, row.last)]
        rates = [f"{row.flops / spread(each).median / 1e12:.1f}" for each in (row.second, row.last)]
        table.add_row(_name(row), *times, spread(row.ratios).text(), ", ".join(rates))
    said, console = about(), terminal(140)
    title = introduce(console, said, f"chains of {_LENGTH} convolutions of one tap")
    console.print(table)
    write_json(said, "chains", found, options.json)
    draw(found, title, options.picture)


if __name__ == "__main__":
    main()
