"""`odtc predict`: what a model makes of samples, as arrays or a table."""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from odtc.cli.console import emit, emit_json, progress_of, say, stages
from odtc.cli.options import (
    CORES_HELP,
    MANY,
    add_json_option,
    add_weights_folder,
    group_of,
    load_artifact,
    output_file,
)
from odtc.cli.switches import Switch
from odtc.cli.training.adapter_runs import check_there, say_which
from odtc.cli.training.read_options import add_read_options, check_read_options
from odtc.cli.training.running import say_idle_cores
from odtc.core.disk.files import check_writable
from odtc.core.disk.outputs import check_outputs
from odtc.core.errors import ExitCode, UsageError
from odtc.core.options.cores import parse_cores
from odtc.core.options.idle import flag_of
from odtc.runtime_rpc.data.wanted import ReadOptions
from odtc.runtime_rpc.state.adapter_names import check_adapter_name

if TYPE_CHECKING:
    import numpy as np

    from odtc.core.artifact.manifest import Evaluation
    from odtc.runtime_rpc.data.source import Source
    from odtc.runtime_rpc.predictions.parts import Predicting
    from odtc.runtime_rpc.predictions.table import Table
    from odtc.runtime_rpc.trainer import Trainer

_MODEL = ".onnx"


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Adds the command."""
    parser = subparsers.add_parser(
        "predict",
        help="run a trained model on samples",
        description="Evaluate samples with an artifact, on this machine or on a device, and "
        "write the outputs: as arrays, or as a table with the class of each sample and its "
        "scores. Labels may be missing, and are ignored.",
        epilog="A folder of images may have any subfolders. Columns of a table are selected by "
        "the names that they had in training.",
    )
    add = parser.add_argument
    add(
        "artifact",
        type=Path,
        metavar="ART|MODEL.onnx",
        help="artifact, or a model to run on this machine, such as one from `odtc train --export`",
    )
    add("--data", type=Path, required=True, metavar="DATA", help="samples; see `odtc train`")
    add(
        "--checkpoint",
        type=Path,
        metavar="FILE",
        help="checkpoint of `odtc train` with the trained weights (default: the artifact's own "
        "weights)",
    )
    add(
        "--adapter",
        metavar="NAME",
        help="adapter to use, if the checkpoint has several (default: the one that was active)",
    )
    add("--ema", action=Switch, help="use the moving averages of the weights")
    add(
        "--output-names",
        **MANY,
        metavar="NAME",
        help="outputs to write, several of them only as .npz (default: the first that is trained)",
    )
    add(
        "-o",
        "--output",
        type=output_file,
        metavar="FILE",
        help="file to write: FILE.npy, FILE.npz or FILE.csv (default: a table on stdout)",
    )
    add_read_options(parser)
    add(
        "--device",
        metavar="URL",
        help="device to use: rpc://HOST:PORT/KEY of a tracker, or adb://SERIAL (default: this "
        "machine)",
    )
    add(
        "--threads",
        type=int,
        metavar="N",
        help="number of worker threads for an evaluation on a CPU",
    )
    add("--cores", type=parse_cores, metavar="C", help=CORES_HELP)
    add_weights_folder(parser)
    add_json_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Predicts, and prints where the predictions are, or a table of them."""
    options = group_of(ReadOptions, args)
    check_read_options(options)
    if args.adapter is not None:
        check_adapter_name(args.adapter)
    if _is_model(args):
        _check_is_of_model(args)
    if args.adapter and not args.checkpoint:
        raise UsageError("--adapter needs a checkpoint", hint="pass --checkpoint FILE")
    inputs = (args.artifact, args.data, args.checkpoint, options.tokenizer)
    check_outputs([args.output], {"what is read": inputs})
    if args.output:
        _check_ending(args.output, args.output_names or ())
        check_writable(args.output)
    elif len(args.output_names or ()) > 1:
        raise UsageError(
            f"a table holds one output, and --output-names has {len(args.output_names)}",
            hint="write all of them to a file, such as -o predictions.npz, or ask for one output",
        )
    # Imported here: samples bring numpy.
    from odtc.runtime_rpc.data.source import notes_of
    from odtc.runtime_rpc.predictions.given import read_samples

    with _opened(args) as (predictor, names):
        evaluated = _evaluated(predictor, args.output_names or ())
        source = read_samples(predictor, args.data, options, evaluated)
        for note in notes_of(source, options, is_trained=False):
            say(f"note: {note}")
        work = _Work(predictor, source, evaluated, names, args.ema)
        work.write(args.output, is_json=args.json)
    return ExitCode.OK


@contextmanager
def _opened(args: argparse.Namespace) -> "Iterator[tuple[Predicting, Sequence[str]]]":
    """What evaluates samples, a trainer or what runs an ONNX file; with the names of classes.

    These are of the run whose checkpoint it is, else of the model's file; there may be none.

    Raises:
        OdtcError: it cannot be read or run.
    """
    import onnx

    from odtc.runtime_rpc.export.names import class_names_in
    from odtc.runtime_rpc.loop.history import class_names_of

    if _is_model(args):
        from odtc.runtime_rpc.predictions.onnx_file import OnnxPredictor

        model = OnnxPredictor(args.artifact)
        yield model, class_names_of(model.progress)
        return
    artifact = load_artifact(args.artifact, args.weights_folder)
    with stages() as progress:
        progress("loading the step on the device")
        trainer = artifact.trainer(args.device, args.threads, args.cores)
    with trainer:
        _take_weights(trainer, args.checkpoint, args.adapter)
        if not (args.threads or args.cores):
            say_idle_cores(trainer)
        names = class_names_of(trainer.progress)
        own = onnx.load(artifact._bundle.model, load_external_data=False)
        yield trainer, names or class_names_in(own)


def _is_model(args: argparse.Namespace) -> bool:
    """Whether it is an ONNX file that predicts."""
    return args.artifact.suffix.lower() == _MODEL


def _check_is_of_model(args: argparse.Namespace) -> None:
    """Checks that nothing is asked for of a model that only an artifact can do.

    Raises:
        UsageError: something is.
    """
    names = ("checkpoint", "adapter", "ema", "device", "threads", "cores", "weights_folder")
    if given := next((name for name in names if getattr(args, name)), None):
        raise UsageError(
            f"{flag_of(given)} is for artifacts, and {args.artifact.name} is an ONNX model",
            hint=f"leave {flag_of(given)} out, or compile the model, and give the artifact",
        )


def _check_ending(output: Path, names: Sequence[str]) -> None:
    """Checks that a file is of a kind that is written.

    Raises:
        UsageError: it is none, or has no place for several outputs.
    """
    from odtc.runtime_rpc.predictions.files import ENDINGS, NPZ

    ending = output.suffix.lower()
    if ending not in ENDINGS:
        raise UsageError(
            f"predictions are written as {', '.join(ENDINGS)}, not as {ending or 'that'}",
            where=str(output),
            hint=f"name it {output.stem or 'predictions'}.npy for an array, .csv for a table",
        )
    if len(names) > 1 and ending != NPZ:
        raise UsageError(
            f"a {ending} file holds one output, and --output-names has {len(names)}",
            where=str(output),
            hint="name it .npz, or ask for one output",
        )


def _evaluated(predictor: "Predicting", names: Sequence[str]) -> "list[Evaluation]":
    """The outputs that are asked for, each once.

    Raises:
        UsageError: there is no such output.
    """
    usual = predictor.manifest.evaluations
    known = {each.output.name: each for each in usual}
    for name in names:
        if name not in known:
            raise UsageError(
                f"the output {name!r} cannot be evaluated",
                where="--output-names",
                hint=f"one of: {', '.join(known)}",
            )
    return [known[name] for name in dict.fromkeys(names)] or [usual[0]]


def _take_weights(trainer: "Trainer", checkpoint: Path | None, adapter: str | None) -> None:
    """Takes those of a checkpoint; without one, says whose they are.

    Raises:
        ArtifactError: it is missing or damaged, or of another model.
        UsageError: it has no such adapter.
    """
    if checkpoint:
        trainer.load_checkpoint(checkpoint)
        if adapter:
            check_there(trainer, adapter, checkpoint)
            trainer.set_adapter(adapter)
        else:
            say_which(trainer)
    else:
        say("note: the weights are those that were compiled; --checkpoint FILE takes trained ones")


@dataclass(frozen=True)
class _Work:
    """What is predicted, with what.

    Attributes:
        predictor: with the weights.
        source: of the samples.
        evaluated: the outputs that are asked for.
        class_names: by their numbers; none where nobody knows them.
        ema: whether moving averages of the weights take their place.
    """

    predictor: "Predicting"
    source: "Source"
    evaluated: "Sequence[Evaluation]"
    class_names: Sequence[str]
    ema: bool

    def write(self, output: Path | None, *, is_json: bool) -> None:
        """Writes the predictions to a file, or prints them.

        Raises:
            OdtcError: samples do not fit the step, the device failed, or the file cannot be
                written.
        """
        from odtc.runtime_rpc.predictions import files

        ending = output.suffix.lower() if output else files.CSV
        # What is no table is told before the work is done.
        table = self._table() if ending == files.CSV else None
        count, names = len(self.source), self.source.sample_names
        rows: Sequence[Sequence[str]] = ()
        with progress_of(count, 0, "sample") as update:
            parts = self._parts(update)
            if table and output:
                files.write_table(output, files.rows_of(parts, table), table)
            elif table:
                rows = [*files.rows_of(parts, table)]
            elif output and ending == files.NPZ:
                files.write_arrays(output, parts, self.evaluated, count, names)
            elif output:
                files.write_array(output, parts, self.evaluated[0], count)
        if is_json:
            emit_json(self._as_data(output, table, rows))
        elif output:
            emit(str(output))
        elif table:
            emit(*map(_line, [table.columns, *rows]))

    def _parts(self, update: Any) -> "Iterator[Mapping[str, np.ndarray]]":
        """The outputs, a part at a time; tells how many samples are done."""
        from odtc.runtime_rpc.predictions.parts import feeds_of, outputs_of

        manifest, done = self.predictor.manifest, 0
        feeds = feeds_of(self.source, manifest, self.evaluated)
        for part in outputs_of(self.predictor, feeds, self.evaluated, ema=self.ema):
            yield part
            first = self.evaluated[0]
            shape = part[first.output.name].shape
            done += first.place.count(shape) if first.place else len(self.source)
            update(done, "")

    def _table(self) -> "Table":
        from odtc.runtime_rpc.predictions.table import table_of

        first, names = self.evaluated[0], self.source.sample_names
        return table_of(self.predictor.manifest, first, self.class_names, names)

    def _as_data(
        self, output: Path | None, table: "Table | None", rows: Sequence[Sequence[str]]
    ) -> dict[str, Any]:
        count = len(self.source)
        shapes = {
            each.output.name: each.place.shape_of(each.output.shape, count)
            if each.place
            else each.output.shape
            for each in self.evaluated
        }
        return {
            "samples": count,
            "outputs": {name: list(shape) for name, shape in shapes.items()},
            "class_names": [*self.class_names],
            "output": str(output) if output else None,
            "rows": [table.as_data(row) for row in rows] if table else [],
        }


def _line(cells: Sequence[str]) -> str:
    """A line of CSV."""
    import csv
    import io

    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(cells)
    return text.getvalue()
