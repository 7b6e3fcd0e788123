"""`odtc inspect`: what an artifact is, and what its training step does with memory."""

import argparse
import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

from odtc.cli.console import aligned, emit, emit_json, readable_bytes
from odtc.cli.options import add_json_option, add_weights_folder, load_artifact
from odtc.cli.switches import Switch
from odtc.core.disk.files import check_writable
from odtc.core.disk.outputs import check_outputs
from odtc.core.errors import ExitCode

if TYPE_CHECKING:
    from odtc.core.adapters import Adapter
    from odtc.core.artifact.manifest import Evaluation, Manifest
    from odtc.core.ir.place import Place
    from odtc.core.specs import Argument, Block, TensorSpec

# What is said of tensors that hold no entry for each sample.
_SHARED, _WHOLE = ", the same for all samples", ", of a whole batch"
# Field of `Sizes` to what a reader calls it.
_SIZES = {
    "parameters": "parameters",
    "optimizer": "optimizer state",
    "accumulators": "of it for micro-batches",
    "train_step": "arena of a step",
    "evaluate": "arena of an evaluation",
}

# Options of an update that does nothing but call the optimizer.
_PLAIN = {
    "clip_value": None,
    "clip_norm": None,
    "accumulate": 1,
    "ema": None,
    "on_nonfinite": "stop",
}


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Adds the command."""
    parser = subparsers.add_parser(
        "inspect",
        help="describe an artifact",
        description="Show what an artifact was compiled from and for, and its sizes in bytes.",
    )
    parser.add_argument(
        "artifact", type=Path, metavar="ART", help="artifact written by `odtc compile`"
    )
    parser.add_argument(
        "--memory", action=Switch, help="show what is live at the memory peak of a step, and why"
    )
    parser.add_argument(
        "--plot",
        type=picture,
        metavar="FILE",
        help="plot where and when each tensor is in memory, as FILE.svg or FILE.html; implies "
        "--memory",
    )
    parser.add_argument(
        "--layouts",
        action=Switch,
        help="print the image layouts as a plan for `odtc compile --layout`, with their costs",
    )
    add_weights_folder(parser)
    add_json_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Prints what the artifact says of itself.

    Raises:
        OdtcError: the artifact is damaged, or the picture cannot be written.
    """
    from odtc.cli.model import beside, layouts, memory
    from odtc.cli.pictures.skyline import draw

    if args.plot:
        check_outputs([args.plot], {"the artifact": [args.artifact]})
        check_writable(args.plot)
    artifact = load_artifact(args.artifact, args.weights_folder)
    manifest = artifact.manifest
    if args.plot:
        draw(artifact.memory.plan, f"{manifest.model}, batch {manifest.batch}", args.plot)
    files = beside.states(artifact._bundle)
    shown = artifact.memory if args.memory or args.plot else None
    if args.json:
        extra = {} if shown is None else {"memory": memory.describe(shown)}
        extra |= {"layouts": layouts.describe(manifest.layouts)} if args.layouts else {}
        emit_json(describe(manifest, args.artifact) | beside.describe(files) | extra)
    elif args.layouts:
        emit(*layouts.report(manifest.layouts))
    elif shown is None:
        emit(*aligned([*_rows(manifest, args.artifact), *beside.rows(files)]))
    else:
        emit(*memory.report(shown))
    return ExitCode.OK


def picture(text: str) -> Path:
    """Reads the path of a picture, for argparse."""
    from odtc.charts.file import SUFFIXES

    if Path(text).suffix not in SUFFIXES:
        raise argparse.ArgumentTypeError(f"{text!r} ends in neither {' nor '.join(SUFFIXES)}")
    return Path(text)


def counts(manifest: "Manifest") -> dict[str, int]:
    """Number of weight tensors of each kind."""
    from odtc.core.specs import Role

    kinds = {"trained": Role.PARAMETER, "frozen": Role.FROZEN, "statistics": Role.STATISTIC}
    return {kind: len(manifest.of_role(role)) for kind, role in kinds.items()}


def describe(manifest: "Manifest", path: Path) -> dict[str, Any]:
    """The artifact as data, for `--json`."""
    from odtc.core.specs import Role

    return {
        "artifact": str(path),
        "bytes": path.stat().st_size,
        "schema": manifest.schema,
        "odtc": manifest.odtc,
        "tvm": manifest.tvm,
        "target": manifest.target,
        "triple": manifest.triple,
        "model": manifest.model,
        "model_sha256": manifest.model_sha256,
        "loss": manifest.loss,
        "precision": manifest.precision,
        "optimizer": manifest.optimizer,
        "update": manifest.update,
        "batch": manifest.batch,
        "micro_batches": manifest.micro_batches,
        "inputs": [_spec(item.spec) | _axis(item.place) for item in manifest.fed(Role.INPUT)],
        "labels": [_argument(item) for item in manifest.labels],
        "outputs": [
            _spec(item.output) | _axis(item.place) | {"eval_batch": _smaller(item)}
            for item in manifest.evaluations
        ],
        "bound": dict(manifest.bound),
        "normalized": dict(manifest.normalized),
        "columns": {name: list(each) for name, each in manifest.columns.items()},
        "kernels": dict(manifest.kernels),
        "tensors": counts(manifest),
        "blocks": {name: dataclasses.asdict(block) for name, block in _blocks(manifest).items()},
        "adapters": [dataclasses.asdict(adapter) for adapter in manifest.adapters],
        "coded": [dataclasses.asdict(item) for item in manifest.coded],
        "sizes": dataclasses.asdict(manifest.sizes),
        "stored_bytes": manifest.stored_bytes,
        "plans": [dataclasses.asdict(plan) for plan in manifest.plans],
        "lengths": {
            length: dataclasses.asdict(each.sizes) for length, each in manifest.lengths.items()
        },
        "tuned": dict(manifest.tuned),
        "notes": list(manifest.notes),
    }


def _blocks(manifest: "Manifest") -> dict[str, "Block"]:
    """The parameters that are trained in part, and the part."""
    return {item.spec.name: item.block for item in manifest.arguments if item.block}


def _axis(place: "Place | None") -> dict[str, int | None]:
    return {"batch_axis": place and place.axis}


def _smaller(item: "Evaluation") -> list[int]:
    """Numbers of samples for which an output can be evaluated, beside a whole batch."""
    return [*item.by_samples][1:] if item.place else []


def _fewer(item: "Evaluation") -> str:
    found = _smaller(item)
    return f"; also of {', '.join(map(str, found))} samples" if found else ""


def _spec(spec: "TensorSpec") -> dict[str, Any]:
    return dataclasses.asdict(spec) | {"shape": list(spec.shape)}


def _argument(item: "Argument") -> dict[str, Any]:
    return (
        _spec(item.spec)
        | _axis(item.place)
        | {"classes": item.classes and dataclasses.asdict(item.classes)}
    )


def _rows(manifest: "Manifest", path: Path) -> list[tuple[str, str]]:
    from odtc.core.options.checked_options import format_choice
    from odtc.core.specs import Role

    options, fed = dict(manifest.optimizer), manifest.fed(Role.INPUT)
    return [
        ("artifact", f"{path}, {_exact(path.stat().st_size)}"),
        ("versions", f"odtc {manifest.odtc}, TVM {manifest.tvm}, schema {manifest.schema}"),
        ("target", f"{manifest.target} ({manifest.triple})"),
        *kernel_rows(manifest),
        ("model", f"{manifest.model}, sha256 {manifest.model_sha256}"),
        ("loss", manifest.loss),
        ("precision", manifest.precision),
        ("optimizer", format_choice(str(options.pop("name")), options)),
        *_update_rows(manifest.update),
        *_micro_batches(manifest),
        *(("input", f"{item.spec}{_where(item.place, _SHARED)}") for item in fed),
        *(("input", f"{name}: {_bound(value)}") for name, value in manifest.bound.items()),
        *(("label", _label(item)) for item in manifest.labels),
        *(
            ("output", f"{item.output}{_where(item.place, _WHOLE)}{_fewer(item)}")
            for item in manifest.evaluations
        ),
        ("tensors", ", ".join(f"{number} {kind}" for kind, number in counts(manifest).items())),
        *(("trained in part", f"{name}: {block}") for name, block in _blocks(manifest).items()),
        *(("adapter of", _adapter(manifest, adapter)) for adapter in manifest.adapters),
        *_sizes(manifest),
        *_storage(manifest),
        *_plans(manifest),
        *_lengths(manifest),
        *(("note", note) for note in manifest.notes),
    ]


def kernel_rows(manifest: "Manifest") -> list[tuple[str, str]]:
    """Rows on the sets of kernels, where there are several."""
    sets = manifest.kernels.items()
    return [("kernels", f"for {core}, {_exact(size)}") for core, size in sets]


def _where(place: "Place | None", otherwise: str) -> str:
    """Where the samples lie, where that is not the first dimension."""
    if place is None:
        return otherwise
    return f", samples along axis {place.axis}" if place.axis else ""


def _bound(value: Any) -> str:
    return "not fed, for nothing needs it" if value is None else f"set to {value}"


def _micro_batches(manifest: "Manifest") -> list[tuple[str, str]]:
    """How a batch is cut, where it is."""
    if manifest.micro_batches == 1:
        return []
    samples = f"{manifest.micro_batch} of the {manifest.batch} samples of a step each"
    return [("micro-batches", f"{manifest.micro_batches}, of {samples}")]


def _sizes(manifest: "Manifest") -> list[tuple[str, str]]:
    sizes = {name: getattr(manifest.sizes, name) for name in _SIZES}
    if manifest.micro_batches == 1:
        del sizes["accumulators"]
    return [(_SIZES[name], _exact(size)) for name, size in sizes.items()]


def _storage(manifest: "Manifest") -> list[tuple[str, str]]:
    """The file that tensors wait in, where some do."""
    return [("waits in a file", _exact(size)) for size in (manifest.stored_bytes,) if size]


def _plans(manifest: "Manifest") -> list[tuple[str, str]]:
    """Budgets that the step fits, where it has several plans."""
    if len(manifest.plans) == 1:
        return []
    return [
        ("plan", f"{_exact(manifest.budget_of(plan))}, {plan.time:.3f} of the fastest one's time")
        for plan in manifest.plans
    ]


def _lengths(manifest: "Manifest") -> list[tuple[str, str]]:
    """What steps take at each of several lengths."""
    return [
        ("length", f"{length}, arena of a step {_exact(each.sizes.train_step)}")
        for length, each in manifest.lengths.items()
    ]


def _label(item: "Argument") -> str:
    classes = item.classes
    if classes is None:
        return str(item.spec)
    ignored = "" if classes.ignored is None else f", {classes.ignored} is ignored"
    return f"{item.spec}, one of {classes.count} classes{ignored}"


def _update_rows(update: dict[str, Any]) -> list[tuple[str, str]]:
    """Rows on clipping, schedules and averages around the optimizer, where there are any."""
    from odtc.core.options.checked_options import format_choice

    known = {key: update.get(key, plain) for key, plain in _PLAIN.items()}
    changed = {key: value for key, value in known.items() if value != _PLAIN[key]}
    groups = [
        (
            "group",
            format_choice(group["glob"], group["options"] | {"lr_factor": group["lr_factor"]}),
        )
        for group in update["groups"]
    ]
    scale = [("loss scale", format_choice("dynamic", s)) for s in (update["loss_scale"],) if s]
    return [*groups, *((key.replace("_", " "), str(v)) for key, v in changed.items()), *scale]


def _adapter(manifest: "Manifest", adapter: "Adapter") -> str:
    (up,) = (item.spec for item in manifest.arguments if item.spec.name == adapter.up)
    rank = up.shape[0 if len(up.shape) == 2 else 1]
    magnitudes = ", with magnitudes (DoRA)" if adapter.magnitude else ""
    return f"{adapter.weight}, rank {rank}, scale {adapter.scale:g}{magnitudes}"


def _exact(count: int) -> str:
    return f"{readable_bytes(count)} ({count:,} bytes)"
