"""Runs an exported file as its users will, and compares it with `evaluate`."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx

from odtc.core.artifact.manifest import Manifest
from odtc.core.errors import ParityError
from odtc.core.ir.place import Place
from odtc.core.onnx_model.inference_form import random_nodes
from odtc.core.onnx_model.large_files import BESIDE
from odtc.core.specs import Role
from odtc.runtime_rpc.export.comparison import (
    difference,
    in_front,
    least_scale,
    samples_of,
    tolerance_of,
)
from odtc.runtime_rpc.export.engine import InferenceEngine, Results, brief, load_engine
from odtc.runtime_rpc.export.inputs import Batches, as_the_file_takes, batches_of, made_inputs
from odtc.runtime_rpc.export.maps import as_scores, maps_of, probabilities
from odtc.runtime_rpc.free_memory import available_bytes

# Memory to load and run a file, over its size and that of an evaluation: a file is read and laid
# out anew, and another library may plan its memory worse.
_COPIES = 3
# A run that would take longer is left out; only ONNX's reference is so slow.
_SECONDS = 60.0

_UNSEEN = "--no-verify writes it as it is, as does verify=False"
_REPORT = f"please report this model; {_UNSEEN}"
_MIXES = (
    "the model computes something over the samples of a batch, such as statistics that its "
    f"exporter spelled out: export it with BatchNormalization nodes, or for inference; {_UNSEEN}"
)

# From inputs to the result of `evaluate` for each output.
Evaluate = Callable[[Mapping[str, np.ndarray]], Results]


@dataclass
class ExportCheck:
    """The result of a file's check.

    Attributes:
        engine: name of the engine that ran it; '' for none.
        batches: numbers of samples that it was run with.
        difference: largest difference over the output's largest element; None where none was
            compared.
        notes: what could not be compared, and why.
    """

    engine: str = ""
    batches: list[int] = field(default_factory=list)
    difference: float | None = 0.0
    notes: list[str] = field(default_factory=list)


def check_file(
    path: Path, model: onnx.ModelProto, manifest: Manifest, evaluate: Evaluate, name: str
) -> ExportCheck:
    """Compares a file with what a trainer evaluates, at the compiled batch and at batch 1.

    Args:
        path: of the file.
        model: the same.
        manifest: of the step.
        evaluate: computes the outputs from inputs of the step.
        name: of the file in errors.

    Raises:
        ParityError: an output differs by more than rounding explains, two runs differ, or the file
            runs for no number of samples.
    """
    too_large = _too_large(path, manifest.sizes.evaluate)
    if too_large:
        return ExportCheck(difference=None, notes=[too_large])
    inputs = manifest.of_role(Role.INPUT)
    bound = {n: np.asarray(value) for n, value in manifest.bound.items() if value is not None}
    arrays = made_inputs(model.graph, inputs) | bound
    evaluated = evaluate(arrays)
    fronts = {output: in_front(model.graph, output) for output in evaluated}
    with _showing(path, model, fronts.values()) as shown:
        engine, reasons = load_engine(shown)
    if engine is None:
        notes = [f"{reason}; the file was not run" for reason in reasons]
        return ExportCheck(difference=None, notes=notes)
    check = ExportCheck(
        engine.name, notes=[f"{reason}; {engine.name} ran it" for reason in reasons]
    )
    batches = batches_of(model.graph, inputs, arrays, manifest.micro_batch)
    places = {each.output.name: each.place for each in manifest.evaluations}
    checking = _Checking(model, tolerance_of(model, manifest), engine, batches, places, name, check)
    checking.compare(arrays, evaluated, fronts)
    return check


@contextmanager
def _showing(path: Path, model: onnx.ModelProto, tensors: Iterable[str]) -> Iterator[Path]:
    """The file, or a copy with further tensors as outputs, which lasts as long as the block."""
    given = [value.name for value in model.graph.output]
    further = [onnx.ValueInfoProto(name=name) for name in set(tensors) - {*given, ""}]
    if not further:
        yield path
        return
    shown = Path(f"{path}.run")
    try:
        model.graph.output.extend(further)
        shown.write_bytes(model.SerializeToString())
        yield shown
    finally:
        del model.graph.output[len(given) :]
        shown.unlink(missing_ok=True)


@dataclass
class _Checking:
    """A file at work; see `check_file`."""

    model: onnx.ModelProto
    tolerance: float
    engine: InferenceEngine
    batches: Batches
    places: Mapping[str, Place | None]
    name: str
    check: ExportCheck

    def compare(
        self, arrays: Mapping[str, np.ndarray], evaluated: Results, fronts: Mapping[str, str]
    ) -> None:
        """Compares outputs, or the logits in front of them, at each number of samples."""
        given = {value.name for value in self.model.graph.output}
        expected = {name: each for name, each in evaluated.items() if name in given}
        drawn = random_nodes(self.model)
        self._note_what_is_left(expected, drawn)
        for count in self._counts(arrays):
            results = self._run(arrays, count)
            if results is None:
                continue
            self.check.batches.append(count)
            if drawn:
                continue
            self._same_again(arrays, count, results)
            for name, each in expected.items():
                places = filter(None, (name, fronts.get(name)))
                self._compare(name, [results[place] for place in places], each, count)
            # Outputs that odtc does not compute must not depend on a sample's neighbours.
            if count == self.batches.compiled:
                expected = {n: v for n, v in results.items() if _is_float(v)} | expected
        if not self.check.batches:
            raise ParityError(
                f"the exported file does not run: {self.check.notes[-1]}",
                where=self._where(),
                hint=f"{_UNSEEN}, where another engine can run it",
            )

    def _note_what_is_left(self, expected: Results, drawn: Sequence[str]) -> None:
        left = [value.name for value in self.model.graph.output if value.name not in expected]
        if left:
            self.check.notes.append(
                f"`evaluate` does not give {', '.join(left)}: compared only with another run"
            )
        if drawn:
            self.check.notes.append(
                f"{', '.join(drawn)}: different numbers in each run; no output was compared"
            )
            self.check.difference = None

    def _counts(self, arrays: Mapping[str, np.ndarray]) -> Sequence[int]:
        """The numbers of samples to run with, as far as a slow engine can."""
        counts = self.batches.counts
        if self.batches.fixed:
            self.check.notes.append(
                f"the batch of the file is {counts[0]}, as in the model: it was run with no other"
            )
        if self.batches.fixed or not self.engine.is_reference or len(counts) == 1:
            return counts
        began = time.monotonic()
        self._run(arrays, 1)
        seconds = (time.monotonic() - began) * counts[0]
        if seconds <= _SECONDS:
            return counts
        self.check.notes.append(
            f"batch {counts[0]} was left out: it would take {self.engine.name} {seconds:.0f} s; "
            "with onnxruntime installed it would not"
        )
        return (1,)

    def _run(self, arrays: Mapping[str, np.ndarray], count: int) -> Results | None:
        try:
            results = self.engine.run(
                as_the_file_takes(self.model.graph, self.batches.of(arrays, count))
            )
            maps = maps_of(self.model.graph).items()
            scores = {name: as_scores(results[name], labels) for name, labels in maps}
            return {**results, **scores}
        except Exception as error:  # Each library has exceptions of its own.
            self.check.notes.append(f"the file does not run at batch {count}: {brief(error)}")
            return None

    def _same_again(self, arrays: Mapping[str, np.ndarray], count: int, first: Results) -> None:
        """Checks that nothing is drawn or kept between two runs."""
        again = self._run(arrays, count) or first
        for name, value in first.items():
            apart = difference(again[name], value) if _is_float(value) else 0.0
            if apart > self.tolerance:
                self._fail(name, apart, f"between two runs at batch {count}", _REPORT)

    def _compare(
        self, name: str, found: Sequence[np.ndarray], expected: np.ndarray, count: int
    ) -> None:
        """Compares one output, or the logits in front of it, with the expected one of a batch."""
        have, shape = self.batches.compiled, found[0].shape
        if count != have and shape == expected.shape:
            self.check.notes.append(f"{name} is of a whole batch: it was not compared at {count}")
            return
        wanted = expected
        if count != have:
            wanted = samples_of(expected, shape, have, count, self.places.get(name))
        if wanted.shape != shape:
            self.check.notes.append(
                f"{name} was not compared: it is {list(shape)} at batch {count}, and "
                f"{list(expected.shape)} of {have}"
            )
            return
        forms = [wanted]
        if name in maps_of(self.model.graph):
            forms.append(probabilities(wanted))
        least = least_scale(self.model.graph, name)
        is_small = np.abs(expected).max(initial=0) < least * self.tolerance
        if is_small and count == have:
            self.check.notes.append(
                f"{name}: all of it is below {least * self.tolerance:g}, as a sigmoid gives of "
                "very negative scores: too small to be compared"
            )
        apart = min(difference(each, form, least) for each in found for form in forms)
        self.check.difference = max(self.check.difference or 0.0, apart)
        if apart > self.tolerance:
            mixes = have in self.check.batches and count != have
            self._fail(
                name,
                apart,
                f"from what it is among {have}, at batch {count}"
                if mixes
                else f"from evaluate, at batch {count}",
                _MIXES if mixes else _REPORT,
            )

    def _fail(self, output: str, apart: float, where: str, hint: str) -> None:
        raise ParityError(
            f"the output {output!r} of the exported file differs {where}: by {apart:.2g} of its "
            f"largest value, of which {self.tolerance:g} may be rounding",
            where=self._where(),
            hint=hint,
        )

    def _where(self) -> str:
        return f"{self.name}, which was not written; run by {self.engine.name}"


def _too_large(path: Path, activations: int) -> str:
    """The reason why a file is not run, as it would take too much memory; '' where it is.

    Args:
        path: of the file.
        activations: bytes that an evaluation takes beside its weights.
    """
    try:
        left = available_bytes()
    except OSError:
        return ""
    files = (path, path.with_name(path.name + BESIDE))
    size = sum(each.stat().st_size for each in files if each.exists())
    needed = _COPIES * (size + activations)
    if needed <= left:
        return ""
    return f"not run: that takes about {needed:,} bytes, of which {left:,} are left"


def _is_float(array: np.ndarray) -> bool:
    return isinstance(array, np.ndarray) and array.dtype.kind == "f"
