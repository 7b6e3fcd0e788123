"""A training step as data, as it is written: `docs/program.md` has the bytes.

manifest: arguments, plans, evaluations ─┐
lines: calls of each function            ┴→ Program
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from odtc.backends.program.lines import Line, Operand, Region
from odtc.core.artifact.base import BASE
from odtc.core.artifact.manifest import Evaluation, Features, Manifest
from odtc.core.ir.place import Place
from odtc.core.specs import Argument, Role, TensorSpec

_ALIGNMENT = 64
# Name of the state that the loss is scaled by; see `odtc.frontend.optimizers`.
_SCALE = "update/loss-scale"


@dataclass(frozen=True)
class Input:
    """An argument of the step, as its user sees it.

    Attributes:
        role: what it is to the step.
        spec: of a whole step, whose micro-batches are parts of the samples in it.
        groups: into which its samples are cut for micro-batches: each group holds a run of bytes
            for each of them. 0 where it is one for all samples.
        averaged: number of the parameter whose average it is, if it is one.
        initial: what a state starts at.
        bounds: the least and the largest integer that it may hold, where there are such.
        ignored: one more integer that it may hold.
        is_accumulator: whether gradients are added up in it.
    """

    role: Role
    spec: TensorSpec
    groups: int
    averaged: int | None
    initial: float
    bounds: tuple[int, int] | None
    ignored: int | None
    is_accumulator: bool


@dataclass(frozen=True)
class Function:
    """A plan of the step, an evaluation, or a part of one.

    Attributes:
        name: of the function.
        output: name of what is evaluated; empty for a plan, and for one over features.
        line: its calls; operands that are arguments have their numbers in the step, constants
            their offset among all constants.
        shape: of the result of a whole step.
        groups: into which the result's samples are cut, as of `Input`; 0 where it has none.
        samples: that a call of it computes.
        axis: of the result along which they lie; 0 where it has none.
        time: of a plan, over that of the fastest; 0 for an evaluation.
        budget_bytes: that a plan needs of a budget; 0 for an evaluation.
    """

    name: str
    output: str
    line: Line
    shape: tuple[int, ...]
    groups: int
    samples: int
    axis: int = 0
    time: float = 0.0
    budget_bytes: int = 0


@dataclass(frozen=True)
class AtLength:
    """A step as it is taken at one length.

    Attributes:
        arguments: of the step.
        functions: plans, the fastest first, and evaluations, the usual one first; those of one
            output follow each other, the most samples first. Then what gives features, evaluations
            over features, and last the step over features, if there are any.
        length: 0 of a step that has but one.
    """

    arguments: tuple[Input, ...]
    functions: tuple[Function, ...]
    length: int = 0


@dataclass(frozen=True)
class Program:
    """All that a runtime needs beside kernels and weights.

    Attributes:
        identity: of the artifact, in hex; see `odtc.core.artifact.identity`.
        micro_batches: calls of the step that make one.
        accumulate: steps to an update.
        threads: the most that kernels have workspaces for.
        skips: whether an update is left out whose gradients are not finite.
        scale: number of the argument that is the loss scale, if it changes.
        samples: of a step.
        constants: bytes that operands lie in.
        facts: what else the artifact says of itself, by name.
        at: the step at each of its lengths, the longest first.
    """

    identity: str
    micro_batches: int
    accumulate: int
    threads: int
    skips: bool
    scale: int | None
    samples: int
    constants: bytes
    facts: Mapping[str, str]
    at: tuple[AtLength, ...]


def program_of(
    manifest: Manifest,
    lines: Mapping[str, Line],
    identity: str,
    threads: int,
    facts: Mapping[str, str] | None = None,
    shorter: Sequence[Mapping[str, Line]] = (),
) -> Program:
    """The program of an artifact.

    Args:
        manifest: of it.
        lines: of the functions that it names.
        identity: of the artifact, in hex.
        threads: the most that its kernels have workspaces for.
        facts: what it says beside what the manifest does, by name.
        shorter: the lines of its shorter lengths, the longest first.
    """
    constants = _Constants()
    lengths = (manifest, *manifest.shorter_ones)
    states = [item for item in manifest.arguments if item.role is Role.STATE]
    scales = [item for item in states if item.spec.name == _SCALE]
    return Program(
        identity=identity,
        micro_batches=manifest.micro_batches,
        accumulate=manifest.accumulate,
        threads=threads,
        skips=manifest.skips,
        scale=manifest.arguments.index(scales[0]) if manifest.update["loss_scale"] else None,
        samples=manifest.batch,
        at=tuple(
            _at_length(each, of, constants)
            for each, of in zip(lengths, (lines, *shorter), strict=True)
        ),
        constants=bytes(constants.content),
        facts={**_facts(manifest), **(facts or {})},
    )


def _at_length(manifest: Manifest, lines: Mapping[str, Line], constants: "_Constants") -> AtLength:
    """The step as it is taken at the length of a manifest."""
    features = [item for each in manifest.features for item in each.arguments]
    numbers = {item: number for number, item in enumerate((*manifest.arguments, *features))}
    named = {(item.role, item.spec.name): number for item, number in numbers.items()}
    everything = range(len(manifest.arguments))
    plans = tuple(
        Function(
            plan.function,
            "",
            line := constants.taken(with_arguments(lines[plan.function], everything)),
            line.result.shape,
            groups=0,
            samples=manifest.micro_batch,
            time=plan.time,
            budget_bytes=manifest.budget_of(plan),
        )
        for plan in manifest.plans
    )

    def evaluation(each: Evaluation, usual: Evaluation) -> Function:
        items = [numbers[item] for item in manifest.arguments_of(each)]
        return Function(
            each.function,
            each.output.name,
            constants.taken(with_arguments(lines[each.function], items)),
            *_whole(usual.output, usual.place, manifest.micro_batches),
            samples=each.place.count(each.output.shape) if each.place else manifest.micro_batch,
            axis=each.place.axis if each.place else 0,
        )

    evaluations = tuple(
        evaluation(each, usual)
        for usual in manifest.evaluations
        for each in (usual, *usual.smaller)
    )

    def part(each: Features, name: str, output: str) -> Function:
        evaluated = {one.function: manifest.arguments_of(one) for one in manifest.evaluations}
        items = (*evaluated.get(each.of, manifest.arguments), *each.arguments)
        line = with_arguments(lines[name], [numbers[item] for item in items])
        taken = constants.taken(line)
        return Function(name, output, taken, taken.result.shape, 0, manifest.micro_batch)

    of_step = [
        each for each in manifest.features if each.of in {p.function for p in manifest.plans}
    ]
    parts = (
        *(part(each, each.first, each.first) for each in manifest.features),
        *(part(each, each.over, each.over) for each in manifest.features if each not in of_step),
        *(part(each, each.over, "") for each in of_step),
    )
    arguments = tuple(_input(item, manifest, named) for item in numbers)
    return AtLength(arguments, (*plans, *evaluations, *parts), manifest.length)


def _input(item: Argument, manifest: Manifest, named: Mapping[tuple[Role, str], int]) -> Input:
    is_fed = item.role in (Role.INPUT, Role.LABEL, Role.FEATURES)
    shape, groups = _whole(item.spec, item.place if is_fed else None, manifest.micro_batches)
    parameter = item.spec.name.partition("/")[2]
    bounds = (-item.rows, item.rows - 1) if item.rows else None
    return Input(
        role=item.role,
        spec=TensorSpec(item.spec.name, shape, item.spec.dtype),
        groups=groups,
        averaged=named[Role.PARAMETER, parameter] if item.role is Role.AVERAGE else None,
        initial=item.initial,
        bounds=(0, item.classes.count - 1) if item.classes else bounds,
        ignored=item.classes.ignored if item.classes else None,
        is_accumulator=item.is_accumulator,
    )


def _whole(
    spec: TensorSpec, place: Place | None, micro_batches: int
) -> tuple[tuple[int, ...], int]:
    """Shape of a whole step, and the groups that its samples lie in."""
    if place is None:
        return spec.shape, 0
    whole = place.shape_of(spec.shape, place.count(spec.shape) * micro_batches)
    before = int(np.prod(spec.shape[: place.axis], dtype=np.int64))
    return whole, before * place.outer


def with_arguments(line: Line, numbers: Sequence[int]) -> Line:
    """A line whose parameters have the numbers that they have in the step."""

    def numbered(each: Operand) -> Operand:
        if each.region is not Region.ARGUMENT:
            return each
        return _moved(each, numbers[each.number], each.offset)

    return _mapped(line, numbered)


def with_constants(line: Line) -> tuple[Line, bytes]:
    """A line whose constants are places among all of them, and these."""
    constants = _Constants()
    return constants.taken(line), bytes(constants.content)


class _Constants:
    """All constants of a step, each of them once."""

    def __init__(self) -> None:
        self.content = bytearray()
        self._places: dict[bytes, int] = {}

    def taken(self, line: Line) -> Line:
        """A line whose constants are places among all of them."""
        places = [self._place(each.tobytes()) for each in line.constants]

        def placed(each: Operand) -> Operand:
            if each.region is not Region.CONSTANT:
                return each
            return _moved(each, 0, places[each.number])

        return replace(_mapped(line, placed), constants=())

    def _place(self, content: bytes) -> int:
        if content not in self._places:
            self.content += bytes(-len(self.content) % _ALIGNMENT)
            self._places[content] = len(self.content)
            self.content += content
        return self._places[content]


def _moved(operand: Operand, number: int, offset: int) -> Operand:
    return Operand(operand.region, number, offset, operand.dtype, operand.shape)


def _mapped(line: Line, change: Callable[[Operand], Operand]) -> Line:
    """A line with each of its operands changed."""
    calls = tuple(replace(each, operands=tuple(map(change, each.operands))) for each in line.calls)
    return replace(line, calls=calls, result=change(line.result))


def _facts(manifest: Manifest) -> dict[str, str]:
    """Facts that a user or a checkpoint may ask for."""
    return {
        "odtc": manifest.odtc,
        "target": manifest.target,
        "triple": manifest.triple,
        "model": manifest.model,
        "model_sha256": manifest.model_sha256,
        "loss": manifest.loss,
        "optimizer": str(manifest.optimizer["name"]),
        **({BASE: manifest.base} if manifest.base else {}),
    }
