"""`compile_model`: the one path from an ONNX file to an artifact.

load -> specialise -> normalise -> training graph -> lower and build -> link -> seal
"""

import dataclasses
import os
import shutil
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

import onnx

import odtc
from odtc.artifact import Artifact
from odtc.autoschedule.cpu import schedule_passes
from odtc.backends.elf import check_library
from odtc.backends.link import export_library
from odtc.backends.lowering import Built, build
from odtc.backends.targets import Target, parse_target
from odtc.core import bundle as bundles
from odtc.core.adapters import Adapter
from odtc.core.bundle import private_folder
from odtc.core.byte_sizes import parse_bytes
from odtc.core.errors import UsageError
from odtc.core.files import check_room
from odtc.core.manifest import Manifest, Sizes
from odtc.core.progress import Progress, silent
from odtc.core.specs import WEIGHT_ROLES, Role
from odtc.core.weights import strip_weights, write_tensors
from odtc.frontend.coverage import require_trainable
from odtc.frontend.graph import Graph
from odtc.frontend.lora import LoRA, adapt
from odtc.frontend.losses.objective import join_losses
from odtc.frontend.losses.terms import Losses, Term, terms_of, terms_text
from odtc.frontend.normalize.pipeline import normalize
from odtc.frontend.normalize.structure import note_batch_norms
from odtc.frontend.onnx_file import load_model
from odtc.frontend.operators.dropout import set_dropout
from odtc.frontend.optimizers.optimizer import Optimizer
from odtc.frontend.optimizers.sgd import SGD
from odtc.frontend.optimizers.update import Update, as_update
from odtc.frontend.selection import Selection, select
from odtc.frontend.specialize import specialize
from odtc.frontend.training import TRAIN_STEP, TrainingGraph, build_training_graph
from odtc.passes.half_storage import HalfStorage

PRECISIONS = ("float32", "mixed")
# Bytes that object files and the linker may take, beside the weights. LLVM aborts the process when
# it runs out of room.
ROOM = 64 << 20


def compile_model(  # noqa: PLR0913 - one keyword for each choice of the user
    model: str | os.PathLike[str],
    target: str | Target = "host-cpu",
    *,
    batch: int | None = None,
    loss: Losses | Sequence[Term] = "cross-entropy",
    optimizer: Optimizer | Update | None = None,
    params: Sequence[str] | str | None = None,
    freeze: Sequence[str] | str = (),
    freeze_batch_norm: bool = False,
    lora: LoRA | None = None,
    shape: Mapping[str, int] | None = None,
    precision: str = "float32",
    memory_budget: int | str | None = None,
    dropout: bool = True,
    seed: int = 0,
    progress: Progress = silent,
) -> Artifact:
    """Compiles an ONNX inference model into a training step.

    Args:
        model: path of the ONNX file.
        target: name of a target, such as `host-cpu` or `android-cpu{mcpu=cortex-a55}`.
        batch: samples in a step; may be left out where the model has a fixed batch.
        loss: on the first output: a loss such as `odtc.CrossEntropy()`, its text, or the path of an
            ONNX file that computes it. Or a loss for each output that is trained, by name; a pair
            gives it a weight: `{"logits": "mse", "aux": (0.3, "mse")}`.
        optimizer: the update rule, plain SGD by default, or an `Update` with what is around it. The
            learning rate is given at each step.
        params: what to train: globs over ONNX initializers and other choices, as text; see
            `odtc.frontend.choices`. The others are frozen. By default all are trained, or with
            `lora` none beside the adapters.
        freeze: what not to train, whatever `params` selects.
        freeze_batch_norm: batch normalisations whose parameters are frozen use their running
            statistics and keep them, as PyTorch's in `eval()`.
        lora: low-rank adapters to train in place of weights.
        shape: sizes of symbolic dimensions other than the batch, by name.
        precision: `float32`, or `mixed`: what the backward pass reads of the forward pass is stored
            as float16, and where the CPU has float16 arithmetic, large products multiply it. Such
            products need a loss scale: it is `dynamic` unless the update has one. Weights,
            gradients, sums and all other arithmetic stay float32.
        memory_budget: bytes that the tensors of a step may take beside parameters and optimizer
            state, such as `64MiB`: some calls run again then, rather than keep what they made.
        dropout: whether training steps drop elements where the model has Dropout; evaluation never
            does.
        seed: of the masks of dropout, below 2**63. With the number of the step it says which
            elements are dropped.
        progress: called with the name of each stage as it starts.

    Returns:
        The artifact, unsaved.

    Raises:
        OdtcError: the model, an option or the machine does not allow it; see `odtc.core.errors`.
    """
    target = parse_target(target) if isinstance(target, str) else target
    target = target.resolved()
    has_half = _check_precision(precision) == "mixed" and target.has_half_arithmetic
    update = as_update(optimizer or SGD())
    if has_half and update.scaling is None:
        update = dataclasses.replace(update, loss_scale="dynamic")
    terms = terms_of(loss)
    budget = None if memory_budget is None else parse_bytes(memory_budget, "memory_budget")

    progress("read the model")
    onnx_model = load_model(model)
    check_room(ROOM + Path(model).stat().st_size)
    graph = specialize(onnx_model, batch, shape)
    set_dropout(graph, dropout, seed)
    objective = join_losses(graph, terms)
    selection, adapters = _choose(graph, params, freeze, freeze_batch_norm, lora)
    note_batch_norms(graph, selection.still)
    require_trainable(graph, selection.trained)
    normalize(graph)
    progress("differentiate")
    training = build_training_graph(graph, objective, update, selection)
    progress("compile the kernels")
    rewrites = (HalfStorage(TRAIN_STEP),) if precision == "mixed" else ()
    schedule = schedule_passes(target)
    built = build(
        *(training.module, target, TRAIN_STEP, schedule, rewrites),
        origins=training.origins,
        has_half=has_half,
        budget=budget,
    )
    if precision == "mixed":
        graph.notes.append(_arithmetic(target, built.half_products, has_half))
    if built.repeated:
        graph.notes.append(f"to fit {budget:,} bytes {built.repeated}")

    progress("link")
    root = private_folder()
    try:
        export_library(built.executable, root / bundles.LIBRARY, target)
        check_library(root / bundles.LIBRARY, target)
        _write_model(onnx_model, graph, root)
        (root / bundles.MEMORY).write_text(built.plan or "", encoding="utf-8")
        manifest = _manifest(Path(model), target, graph, training, built, terms, update, precision)
        manifest = dataclasses.replace(manifest, adapters=adapters)
        return Artifact(bundles.seal(manifest, root))
    except BaseException:
        shutil.rmtree(root, ignore_errors=True)
        raise


def _choose(
    graph: Graph,
    params: Sequence[str] | str | None,
    freeze: Sequence[str] | str,
    freeze_batch_norm: bool,
    lora: LoRA | None,
) -> tuple[Selection, tuple[Adapter, ...]]:
    """What is trained, and the adapters that were added to the graph for it."""
    if params is None:
        params = "*" if lora is None else ()
    train, frozen = ((given,) if isinstance(given, str) else given for given in (params, freeze))
    selection = select(graph, train, frozen, freeze_batch_norm)
    return adapt(graph, lora, selection) if lora else (selection, ())


def _check_precision(precision: str) -> str:
    if precision not in PRECISIONS:
        raise UsageError(
            f"unknown precision {precision!r}", hint=f"one of: {', '.join(PRECISIONS)}"
        )
    return precision


def _arithmetic(target: Target, half_products: int, has_half: bool) -> str:
    """What is said of the arithmetic of a step in mixed precision."""
    if not has_half:
        return f"arithmetic is float32: {target.spec} has none for float16"
    return f"{half_products} kernels multiply float16 and add up float32; the loss is scaled"


def _write_model(model: onnx.ModelProto, graph: Graph, root: Path) -> None:
    """The weights, and the graph without them."""
    write_tensors(root / bundles.PARAMETERS, graph.parameters)
    skeleton = strip_weights(model, graph.parameters)
    (root / bundles.MODEL).write_bytes(skeleton.SerializeToString())


def _manifest(  # noqa: PLR0917 - what the manifest names
    path: Path,
    target: Target,
    graph: Graph,
    training: TrainingGraph,
    built: Built,
    terms: Sequence[Term],
    update: Update,
    precision: str,
) -> Manifest:
    def total(*roles: Role) -> int:
        return sum(item.spec.nbytes for item in training.arguments if item.role in roles)

    return Manifest(
        odtc=odtc.__version__,
        tvm=version("apache-tvm"),
        target=target.spec,
        triple=target.triple,
        model=path.name,
        model_sha256=bundles.file_sha256(path),
        loss=terms_text(terms),
        optimizer={"name": update.optimizer.name, **dataclasses.asdict(update.optimizer)},
        update=update.options(),
        precision=precision,
        arguments=training.arguments,
        evaluations=training.evaluations,
        sizes=Sizes(
            parameters=total(*WEIGHT_ROLES),
            optimizer=total(Role.STATE, Role.AVERAGE),
            train_step=built.planned_bytes[TRAIN_STEP],
            evaluate=max(built.planned_bytes[item.function] for item in training.evaluations),
        ),
        notes=tuple(graph.notes),
    )
