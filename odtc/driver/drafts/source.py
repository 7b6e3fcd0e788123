"""`Source`: a model as it was read, and what is asked of its step, whatever its batch."""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx

from odtc.backends.targets import Target
from odtc.core.disk.files import check_room
from odtc.core.process.progress import Progress
from odtc.driver.drafts.chosen import update_of, wanted
from odtc.driver.drafts.fitting import check_target, wants_mixed
from odtc.driver.drafts.measured import Measured, measured
from odtc.driver.drafts.normalizing import normalized_by
from odtc.driver.layouts import LayoutChoice, layout_choice
from odtc.driver.options.step_options import StepOptions
from odtc.frontend.feeds import Axes, InputOptions
from odtc.frontend.file.onnx_file import load_model, modern
from odtc.frontend.file.specialize import read_graph
from odtc.frontend.graph import Graph
from odtc.frontend.losses.terms import Term, terms_of
from odtc.frontend.normalize.unpack import unpack
from odtc.frontend.optimizers.update import Update
from odtc.frontend.trained.quantise import Format, Held, parse_format
from odtc.frontend.trained.stored_codes import Kept
from odtc.frontend.weights.finite import not_finite

# Bytes that object files and the linker may take, beside the weights. LLVM aborts the process when
# it runs out of room.
ROOM = 64 << 20


@dataclass(frozen=True)
class Source:
    """The source of a step, whatever its batch.

    Attributes:
        model: as it was read; elements of large tensors are in its file.
        target: what to compile for.
        options: as the user gave them.
        terms: of the loss.
        update: the update rule with what is around it.
        has_half: whether products may multiply float16.
        saves_half: whether what the backward reads is stored as float16.
        measured: what is known of the target's kernels.
        layouts: of images, as `odtc/driver/layouts.py` reads them.
        read: the model's graph as it was read, whose arrays all drafts share.
        broken: names of its weights that are not finite.
        axes: of the inputs, along which the samples lie; None before it is known.
        normalized: inputs that are normalised in the model, each with how, as text.
        columns: names of the columns of such inputs, where the data says them.
        rounded: its weights as they were quantised, once for all drafts.
        kept: those that the file has as integers, as a step keeps them.
        length: of several, that the step is for; 0 where it has one size, or before it is chosen.
    """

    model: onnx.ModelProto
    target: Target
    options: StepOptions
    terms: Sequence[Term]
    update: Update
    has_half: bool
    saves_half: bool
    measured: Measured
    layouts: LayoutChoice
    read: Graph
    broken: frozenset[str]
    axes: Axes | None = None
    normalized: Mapping[str, str] = field(default_factory=dict)
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    rounded: Held = field(default_factory=dict)
    kept: Kept = field(default_factory=dict)
    length: int = 0

    @property
    def arrays(self) -> Mapping[str, np.ndarray]:
        """The model's tensors by name, as they were read."""
        return {**self.read.constants, **self.read.parameters}

    @property
    def form(self) -> Format | None:
        """How frozen matrices are stored that the file has as floats; None for as they are."""
        return parse_format(self.options.quantize) if self.options.quantize else None

    @property
    def asked(self) -> InputOptions:
        """The user's options for the inputs."""
        options = self.options
        return InputOptions(
            options.batch, options.shape or {}, options.batch_axis or {}, options.set or {}
        )


def read_source(
    model: str | os.PathLike[str],
    target: Target,
    options: StepOptions,
    progress: Progress,
    *,
    is_tight: bool = False,
) -> Source:
    """Reads a model and what is asked of it; see `odtc.compile` for other arguments and errors.

    Args:
        model: path of the ONNX file.
        target: what the step is compiled for.
        options: of the step.
        progress: called with the name of each stage as it starts.
        is_tight: whether the step has to keep within a budget, so that bytes are worth something.
    """
    target = target.resolved()
    check_target(target, options)
    is_mixed = wants_mixed(options)
    has_half = is_mixed and target.has_half_arithmetic
    update = update_of(options)
    if has_half and update.scaling is None:
        update.check_may_scale(f"precision mixed on {target.name}")
        update = dataclasses.replace(update, loss_scale="dynamic")
    terms = terms_of(options.loss)

    progress("read the model")
    onnx_model = load_model(model, in_file=True)
    check_room(ROOM + Path(model).stat().st_size)
    known = measured(target, options)
    normalized, columns = normalized_by(options.normalize, onnx_model)
    read = read_graph(modern(onnx_model), wanted(options)[0])
    unpack(read)  # once for all drafts
    read.notes += [f"{name}: {said}" for name, said in normalized.items()]
    return Source(
        model=onnx_model,
        target=target,
        options=options,
        terms=terms,
        update=update,
        has_half=has_half,
        saves_half=is_mixed,
        measured=known,
        layouts=layout_choice(target, options.layout, is_mixed=is_mixed, is_tight=is_tight),
        read=read,
        broken=not_finite(read.parameters),
        normalized=normalized,
        columns=columns,
    )
