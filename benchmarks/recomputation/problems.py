"""Recomputation problems: training steps of networks, and drawn graphs in layers."""

import random
from pathlib import Path

import onnx

from benchmarks.step_time.cases import case_of
from odtc.backends.targets import parse_target
from odtc.core.process.progress import silent
from odtc.driver.drafts.source import read_source
from odtc.driver.options.step_options import StepOptions
from odtc.driver.splitting import Cuts
from odtc.passes.checkpoint.problem import Recomputation
from odtc.passes.memory.operator_order import Task, Tasks

LAYERED = "layered-"


def problem_of(name: str, batch: int, target: str, folder: Path) -> Recomputation:
    """The problem of a network, by its name, or of a drawn graph, `layered-NODES`.

    Args:
        name: of the network.
        batch: samples in its step.
        target: whose model gives the time of a call.
        folder: for the model.
    """
    if name.startswith(LAYERED):
        return layered(int(name.removeprefix(LAYERED)))
    case, path = case_of(name, batch), folder / "model.onnx"
    onnx.save(case.model, path)
    options = StepOptions(batch=case.batch, loss=case.loss, micro_batches=1)
    source = read_source(path, parse_target(target), options, silent)
    return next(iter(Cuts(source, silent, for_plans=True))).problem


def layered(nodes: int, seed: int = 0) -> Recomputation:
    """A drawn graph of layers of about ten nodes, which read nodes of the two layers before.

    It has no backward pass. Some nodes are read again much later, as what a backward pass reads is.
    """
    draw = random.Random(seed)
    layers: list[list[int]] = []
    tasks: list[Task] = []
    while len(tasks) < nodes:
        layer = []
        for _ in range(min(draw.randint(5, 15), nodes - len(tasks))):
            near = [each for before in layers[-2:] for each in before]
            reads = set(draw.sample(near, min(len(near), draw.randint(1, 4))))
            if layers and draw.random() < 0.3:
                reads.add(draw.choice(draw.choice(layers)))
            number = len(tasks)
            tasks.append(Task((number,), frozenset(reads)))
            layer.append(number)
        layers.append(layer)
    sizes = tuple(draw.randint(1, 100) << 10 for _ in tasks)
    seconds = tuple(draw.randint(1, 100) * 1e-6 for _ in tasks)
    return Recomputation(Tasks(tuple(tasks), sizes), seconds, (nodes,) * nodes, nodes)
