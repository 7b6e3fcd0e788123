"""`seal`: a built step becomes the members of an artifact.

weights, model, plans, manifest, features -> identity -> program -> library -> check -> hashes
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from odtc.backends.built import Built
from odtc.backends.objects.elf import check_library
from odtc.backends.objects.host_code import check_has_program, check_launches
from odtc.backends.objects.library import export_library
from odtc.backends.objects.static_kernels import check_kernels, write_kernels
from odtc.backends.targets import CPU, Target
from odtc.core.artifact import bundle as bundles
from odtc.core.artifact.beside import Beside, metadata_of
from odtc.core.artifact.memory_plan import memory_plans_json
from odtc.core.coded import Shared
from odtc.core.disk.tensor_file import write_tensors
from odtc.core.onnx_model.shared_tensors import take_out
from odtc.core.onnx_model.weights import strip_weights
from odtc.driver.fitting import BuiltPlans
from odtc.driver.sealed.base import hash_of_base
from odtc.driver.sealed.beside import left_beside
from odtc.driver.sealed.description import manifest_of
from odtc.driver.sealed.features import cut_functions
from odtc.driver.sealed.step_program import write_program
from odtc.driver.training import Step
from odtc.frontend.weights.in_file import put_into
from odtc.passes.memory.packing.problem import TENSOR_ALIGNMENT


def seal(every: Sequence[BuiltPlans], model: Path, digest: str, root: Path) -> bundles.Bundle:
    """Links the library of a step, and writes it with all else that an artifact holds.

    Args:
        every: the step at each of its lengths, the longest first.
        model: path of its file.
        digest: of the content of that, as it was read.
        root: a folder for the members, which the bundle owns from then on.

    Raises:
        BuildError: there is no linker, or it fails.
        UnsupportedError: weights are to stay in their files, and none can; or nothing could take
            the step on its GPU.
    """
    made = every[0]
    built, target = made.built, made.step.source.target
    check_has_program(built.lines.refused, target)
    beside = left_beside(model, made.step) if made.step.source.options.weights_beside else None
    shared = _write_model(made.step, beside.weights if beside else (), root)
    plans = memory_plans_json(step.record for each in every for step in each.built.steps)
    (root / bundles.MEMORY).write_text(plans, encoding="utf-8")
    base = hash_of_base(made.step, beside.weights if beside else ())
    manifest = replace(manifest_of(model.name, digest, every), shared=shared, base=base)
    is_cut = target.kind == CPU and not manifest.shorter
    parts = cut_functions(manifest, built.lines.of if is_cut else {})
    notes = (*manifest.notes, *parts.notes, *(beside.notes if beside else ()))
    manifest = replace(manifest, features=parts.features, notes=notes)
    lines = {**built.lines.of, **parts.lines}
    identity = bundles.identity_in(manifest, root)
    shorter = [each.built.lines.of for each in every[1:]]
    program = write_program(manifest, lines, identity, target, root, shorter)
    identity = bundles.build_id_of(identity, program)
    library = root / bundles.LIBRARY
    _write_library(built, library, target, identity)
    return bundles.seal(manifest, root, model.absolute().parent)


def _write_model(step: Step, beside: Sequence[Beside], root: Path) -> Mapping[str, Shared]:
    """Writes the weights, and the graph without them; returns what both had."""
    source, parameters = step.source, step.draft.graph.parameters
    elsewhere = {each.name for each in beside}
    own = {name: value for name, value in parameters.items() if name not in elsewhere}
    # The native runtime reads weights that are not trained where they lie in the file.
    where = metadata_of(beside)
    write_tensors(root / bundles.PARAMETERS, own, where, alignment=TENSOR_ALIGNMENT)
    skeleton = strip_weights(source.model, parameters)
    coded = [item for item in step.draft.graph.coded.values() if item.in_file]
    names = [name for item in coded for name in (item.weight, *item.beside)]
    put_into(skeleton, source.arrays)
    shared = take_out(skeleton, {name: parameters[name] for name in names})
    (root / bundles.MODEL).write_bytes(skeleton.SerializeToString())
    return shared


def _write_library(built: Built, library: Path, target: Target, identity: str) -> None:
    """The kernels: as a library, with what TVM runs a step by, or to be linked into an app."""
    if target.is_static:
        write_kernels(built.objects, library, identity)
        check_kernels(library, target)
    else:
        export_library(built.executable, library, target, identity, built.objects)
        check_library(library, target)
        check_launches(library, target)
