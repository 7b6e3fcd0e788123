"""The manifest of an artifact: one JSON object, versioned."""

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from odtc.core.adapters import Adapter
from odtc.core.artifact.layout_plan import LayoutPlan
from odtc.core.coded import Coded, Shared
from odtc.core.counted import Counted
from odtc.core.ir.place import Place
from odtc.core.specs import (
    FED_ROLES,
    WEIGHT_ROLES,
    Argument,
    Role,
    TensorSpec,
    batch_of,
    of_role,
)

SCHEMA = 13
# Bytes of which tensors begin at a multiple.
ALIGNMENT = 64


def allocator_of(function: str) -> str:
    """Name of the function of a library that makes the arena that a training step is given."""
    return f"{function}_arena"


@dataclass(frozen=True)
class Sizes:
    """Bytes of an artifact at work.

    Attributes:
        parameters: weights of all kinds: trained, frozen and running statistics.
        optimizer: state of the optimizer, accumulators and moving averages.
        accumulators: of it, those that only the cut into micro-batches needs.
        train_step: activations, gradients and workspaces of a training step, or of one of its
            micro-batches, by its fastest plan.
        evaluate: the same of an evaluation.
    """

    parameters: int
    optimizer: int
    accumulators: int
    train_step: int
    evaluate: int


@dataclass(frozen=True)
class StepPlan:
    """One of the ways in which a library runs the training step; all give the same bits.

    Attributes:
        function: of the library. After the arguments it takes its arena, a tuple of one tensor;
            `allocator_of` names the function that makes it.
        arena_bytes: of its arena.
        time: of its calls, by a model of the target, over that of the fastest.
    """

    function: str
    arena_bytes: int
    time: float


# Parts of a manifest that only some steps have.
_OF_SOME = frozenset(
    "base coded columns counted features kernels length normalized shared shorter".split()
)


@dataclass(frozen=True)
class Evaluation:
    """An output that can be evaluated.

    Attributes:
        function: of the library, which gives it.
        output: its spec, by the output's name in the ONNX model.
        inputs: names of the inputs that it depends on; the function takes these, then the weights.
        place: where the samples lie in the output; None where it holds none, or nothing shows where
            they are: it is then that of one whole batch.
        smaller: the same output for fewer samples, the most first.
    """

    function: str
    output: TensorSpec
    inputs: tuple[str, ...]
    place: Place | None = None
    smaller: tuple["Evaluation", ...] = ()

    @property
    def by_samples(self) -> dict[int, "Evaluation"]:
        """This one and the smaller ones by the number of samples, the most first.

        Only of an output that holds samples.
        """
        assert self.place
        return {self.place.count(each.output.shape): each for each in (self, *self.smaller)}


@dataclass(frozen=True)
class Features:
    """How a function runs in two parts, of which the first is the same for a sample at any step.

    Attributes:
        of: the function, a plan of the step or an evaluation.
        arguments: the features, what a micro-batch has of each.
        inputs: names of the inputs that the second part reads, too.
    """

    of: str
    arguments: tuple[Argument, ...]
    inputs: tuple[str, ...] = ()

    @property
    def first(self) -> str:
        """Name of the function of the program that gives the features, as one row of bytes."""
        return f"{self.of}/features"

    @property
    def over(self) -> str:
        """Name of the function of the program that goes on from them."""
        return f"{self.of}/over_features"

    def cut(self, row: np.ndarray) -> dict[Argument, np.ndarray]:
        """The features of a micro-batch, as views of the row of bytes that the first part gives."""
        found, start = {}, 0
        for item in self.arguments:
            spec = item.spec
            found[item] = row[start : start + spec.nbytes].view(spec.dtype).reshape(spec.shape)
            start += -(-spec.nbytes // ALIGNMENT) * ALIGNMENT
        return found


@dataclass(frozen=True)
class Shorter:
    """What of a step is otherwise at a shorter length.

    Attributes:
        length: such as a number of tokens.
        fed: inputs and labels, in the order of those of the step.
        plans: of the training step, as of the manifest.
        evaluations: as of the manifest.
        train_step: bytes of its fastest plan, as of `Sizes`.
        evaluate: the same of an evaluation.
    """

    length: int
    fed: tuple[Argument, ...]
    plans: tuple[StepPlan, ...]
    evaluations: tuple[Evaluation, ...]
    train_step: int
    evaluate: int


@dataclass(frozen=True)
class Manifest:
    """Everything about a compiled training step but its bytes.

    Attributes:
        odtc: version that compiled it.
        tvm: version of TVM whose runtime it needs.
        target: text of the target.
        triple: the target's LLVM triple.
        model: file name of the ONNX model.
        model_sha256: hash of the ONNX model.
        loss: text of the loss, or of those of several outputs.
        optimizer: its name and options.
        update: options of what is around the optimizer: groups, clipping, accumulation and so on.
        precision: `float32` or `mixed`.
        micro_batches: calls of `train_step` that make a step, each with an equal part of the batch.
        arguments: of `train_step`, in order.
        plans: of the training step, the fastest first; each is smaller than the one before it.
        evaluations: the outputs that can be evaluated; the first is the usual one.
        sizes: bytes at work.
        notes: what was assumed about the model.
        adapters: low-rank adapters that were added to the model.
        tuned: kernels whose loops were measured, each with where.
        layouts: of images in the training step; None where all have that of ONNX.
        bound: inputs of the model that a step does not take: the value of each that was given when
            it was compiled, and None for those that nothing needs.
        normalized: inputs that the model normalises, each with means and deviations, as text.
        columns: names of the columns whose means and deviations an input has, in their order.
        kernels: bytes of the kernels for each CPU, by LLVM's names of these, where the target has
            several; the first are those that TVM runs.
        coded: weights that are kept as codes.
        counted: what of inputs and labels a loss inside of the model reads, where it may ignore it,
            and nothing else makes up the loss.
        features: functions that can go on from features: the step, and evaluations.
        shared: tensors of the model whose bytes an argument has, by name.
        length: of what arguments, plans and evaluations are of, where a step can be taken at
            several lengths; 0 where it has one size.
        shorter: what is otherwise at shorter lengths, the longest first.
        base: hash of the weights that no step changes; see `odtc.core.artifact.base`. Empty where
            there are none, and in artifacts of before.
        files: member of the artifact to its sha256.
        schema: version of this format.
    """

    odtc: str
    tvm: str
    target: str
    triple: str
    model: str
    model_sha256: str
    loss: str
    optimizer: dict[str, Any]
    update: dict[str, Any]
    precision: str
    micro_batches: int
    arguments: tuple[Argument, ...]
    plans: tuple[StepPlan, ...]
    evaluations: tuple[Evaluation, ...]
    sizes: Sizes
    notes: tuple[str, ...] = ()
    adapters: tuple[Adapter, ...] = ()
    tuned: Mapping[str, str] = field(default_factory=dict)
    layouts: LayoutPlan | None = None
    bound: Mapping[str, Any] = field(default_factory=dict)
    normalized: Mapping[str, str] = field(default_factory=dict)
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    kernels: Mapping[str, int] = field(default_factory=dict)
    coded: tuple[Coded, ...] = ()
    counted: tuple[Counted, ...] = ()
    features: tuple[Features, ...] = ()
    shared: Mapping[str, Shared] = field(default_factory=dict)
    length: int = 0
    shorter: tuple[Shorter, ...] = ()
    base: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    schema: int = SCHEMA

    def of_role(self, *roles: Role) -> tuple[Argument, ...]:
        """The arguments of these roles, in order."""
        return tuple(of_role(self.arguments, *roles))

    @property
    def every_plan(self) -> tuple[tuple[int, StepPlan], ...]:
        """The plans of all lengths, each with its length, in the order of the memory plans."""
        at = (self, *self.shorter)
        return tuple((each.length, plan) for each in at for plan in each.plans)

    @property
    def shorter_ones(self) -> tuple["Manifest", ...]:
        """What would be the manifests of the same step, were it compiled for a shorter length."""
        return tuple(map(self._at, self.shorter))

    @property
    def lengths(self) -> dict[int, "Manifest"]:
        """Manifests by length, the longest first; none where the step has one size."""
        whole = (dataclasses.replace(self, shorter=()), *self.shorter_ones)
        return {each.length: each for each in whole} if self.shorter else {}

    def _at(self, shorter: Shorter) -> "Manifest":
        fed = iter(shorter.fed)
        sizes = dataclasses.replace(
            self.sizes, train_step=shorter.train_step, evaluate=shorter.evaluate
        )
        return dataclasses.replace(
            self,
            arguments=tuple(
                next(fed) if item.role in FED_ROLES else item for item in self.arguments
            ),
            plans=shorter.plans,
            evaluations=shorter.evaluations,
            sizes=sizes,
            length=shorter.length,
            shorter=(),
        )

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """Specs of what a caller feeds a step, without the labels."""
        return tuple(item.spec for item in self.fed(Role.INPUT))

    @property
    def labels(self) -> tuple[Argument, ...]:
        """The labels that a caller feeds: none, where the model has its loss inside."""
        return self.fed(Role.LABEL)

    def fed(self, role: Role) -> tuple[Argument, ...]:
        """Inputs or labels of a whole step: micro-batches are parts of the samples in them."""
        items = self.of_role(role)
        return items if self.micro_batches == 1 else tuple(map(self.whole, items))

    @property
    def fed_features(self) -> tuple[Argument, ...]:
        """The features of a whole step, of all functions that can go on from some."""
        return tuple(self.whole(item) for each in self.features for item in each.arguments)

    def features_of(self, function: str) -> Features | None:
        """The features that a function can go on from."""
        return next((each for each in self.features if each.of == function), None)

    def whole(self, item: Argument) -> Argument:
        """An argument of a micro-batch, as that of a whole step."""
        if item.place is None:
            return item
        samples = item.place.count(item.spec.shape) * self.micro_batches
        shape = item.place.shape_of(item.spec.shape, samples)
        return dataclasses.replace(item, spec=dataclasses.replace(item.spec, shape=shape))

    def arguments_of(self, evaluation: Evaluation) -> tuple[Argument, ...]:
        """The arguments of an evaluation, in order."""
        fed = (item for item in self.of_role(Role.INPUT) if item.spec.name in evaluation.inputs)
        return (*fed, *self.of_role(*WEIGHT_ROLES))

    @property
    def logits(self) -> TensorSpec:
        """Spec of the usual evaluation."""
        return self.evaluations[0].output

    @property
    def batch(self) -> int:
        """Samples in a step."""
        return self.micro_batch * self.micro_batches

    @property
    def micro_batch(self) -> int:
        """Samples in a call of `train_step` or of an evaluation."""
        return batch_of(self.of_role(Role.INPUT, Role.LABEL))

    def budget_of(self, plan: StepPlan) -> int:
        """The bytes of a budget that a plan needs: its arena, and accumulators of micro-batches."""
        return plan.arena_bytes + self.sizes.accumulators

    @property
    def stored_bytes(self) -> int:
        """Bytes of the file on the device in which tensors of a step wait; 0 where none do."""
        return sum(item.spec.nbytes for item in self.of_role(Role.STORAGE))

    @property
    def accumulate(self) -> int:
        """Steps to an update: the last of them updates."""
        return int(self.update["accumulate"])

    @property
    def skips(self) -> bool:
        """Whether an update is left out whose gradients are not finite; older steps do not."""
        return self.update.get("on_nonfinite") == "skip"

    def to_json(self) -> str:
        """The manifest as JSON text."""
        return json.dumps(self.as_data(), indent=1)

    def as_data(self) -> dict[str, Any]:
        """The manifest as what JSON has, without what only some steps have and this one has not.

        So older artifacts have the identity that they were made with, and older versions read what
        says nothing that is new to them.
        """
        data = dataclasses.asdict(self)
        return {key: data[key] for key in data if data[key] or key not in _OF_SOME}
