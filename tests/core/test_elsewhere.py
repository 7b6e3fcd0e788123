"""Names of other libraries: each error says where odtc has it, and what it says is there."""

import re

import pytest

import odtc
from odtc.cli.main import build_parser
from odtc.cli.parser_tree import actions_of, leaves_of
from odtc.cli.unknown import unknown_options
from odtc.core.elsewhere import names
from odtc.core.elsewhere.arguments import ARGUMENTS
from odtc.core.elsewhere.rows import Row
from odtc.core.errors import UsageError
from odtc.runtime_rpc.loop.fitter import Fitter
from odtc.runtime_rpc.loop.history import History

TABLES = {
    "arguments": ARGUMENTS,
    "names": names.NAMES,
    "schedules": names.SCHEDULES,
    "trainer": names.TRAINER,
    "run": names.RUN,
    "history": names.HISTORY,
    "artifact": names.ARTIFACT,
    "callback": names.CALLBACK,
}


@pytest.mark.parametrize("table", TABLES)
def test_what_is_said_of_other_libraries_names_is_there(table: str):
    rows: tuple[Row, ...] = TABLES[table]
    named = [name for row in rows for name in row.names.split()]
    assert len(named) == len(set(named)), "a name has two answers"
    texts = [text for row in rows for text in (row.python, row.command_line)]
    for text in texts:
        for path in re.findall(r"odtc((?:\.[A-Za-z_0-9]+)+)", text):
            found = odtc
            for part in path.strip(".").split("."):
                if part != "onnx":
                    found = getattr(found, part)
    options = {
        name
        for _, parser in leaves_of(build_parser())
        for action in actions_of(parser)
        for name in action.option_strings
    }
    assert {word for text in texts for word in re.findall(r"--[a-z-]+", text)} <= options


def test_the_command_line_is_told_of_its_options():
    """And of no calls in Python."""
    told = {row.names: row.command_line or row.python for row in ARGUMENTS}
    for names_of_row, text in told.items():
        assert not re.search(r"odtc\.\w|trainer\.|artifact\.|callbacks=|run\(", text), names_of_row


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: odtc.compile("m.onnx", batch_size=4), r"odtc.compile\(model, batch=32\)"),  # type: ignore[call-arg]
        (lambda: odtc.EarlyStopping(restore_best_weights=True), "odtc.BestCheckpoint"),  # type: ignore[call-arg]
        (lambda: odtc.Checkpoint("c", save_best_only=True), "odtc.BestCheckpoint"),  # type: ignore[call-arg]
        (lambda: odtc.TensorBoard(log_dir="d"), "it is folder"),  # type: ignore[call-arg]
        (lambda: Fitter().fit((), shuffle=False), "are shuffled, by seed"),  # type: ignore[call-arg]
        (lambda: Fitter().fit((), validation_split=0.1), "nothing is split off"),  # type: ignore[call-arg]
        (lambda: Fitter().fit((), eval_steps=5), "it is validate_every"),  # type: ignore[call-arg]
        (lambda: Fitter().fit((), ()), r"one argument: fit\(\(x, y\), lr=0.05\)"),  # type: ignore[misc]
    ],
)
def test_an_argument_of_another_library_is_told_where_it_is(call, said: str):
    with pytest.raises(UsageError) as failure:
        call()
    assert re.search(said, failure.value.hint or "")


@pytest.mark.parametrize(
    ("of", "name", "said"),
    [
        (odtc, "ReduceLROnPlateau", "EarlyStopping, and fit again with a lower lr"),
        (odtc, "ModelCheckpoint", "odtc.BestCheckpoint"),
        (odtc.schedules, "CosineAnnealingLR", "odtc.schedules.Cosine"),
        (odtc.schedules, "Cosin", "did you mean Cosine?"),
        (Fitter(), "train_on_batch", "trainer.step"),
        (History(), "history", r"history\['val_loss'\]"),
        (object.__new__(odtc.Artifact), "fit", r"artifact.trainer\(\) has it"),
    ],
)
def test_a_name_of_another_library_is_told_what_odtc_has(of: object, name: str, said: str):
    with pytest.raises(AttributeError, match=said):
        getattr(of, name)


class _Own(odtc.Callback):
    """A callback of a user, with attributes of its own."""

    def __init__(self) -> None:
        self.patience = 3


def test_what_is_set_and_nobody_reads_is_an_error():
    for of, name, said in (
        (Fitter(), "lr", "lr= of trainer.step and trainer.fit is a number or a schedule"),
        (Fitter(), "learning_rate", "lr= of trainer.step"),
        (Fitter(), "threads", "trainer.use_threads"),
        (Fitter(), "stpes", "no attribute 'stpes'"),
        (History(), "val_loss", "no attribute 'val_loss'"),
        (odtc.EarlyStopping(), "patience", r"odtc.EarlyStopping\(patience=5\)"),
        (odtc.Checkpoint("c"), "evry", "no attribute 'evry'"),
        (object.__new__(odtc.Artifact), "lr", "the learning rate goes to each step"),
    ):
        with pytest.raises(AttributeError, match=said):
            setattr(of, name, 1)
    odtc.Checkpoint("c").path = "d"  # type: ignore[assignment]
    History().rows = []
    Fitter().steps = 3  # type: ignore[attr-defined]
    _Own().anything = 1  # type: ignore[attr-defined]


def test_a_class_that_is_derived_has_attributes_of_its_own():
    class Mine(Fitter):
        pass

    mine = Mine()
    mine.name = "a"  # type: ignore[attr-defined]
    assert mine.name == "a"


def test_an_option_of_another_program_is_told_where_it_is():
    parser = build_parser()
    for option, said in {
        "--batch-size": "odtc compile --batch 32",
        "--amp": "--precision mixed",
        "--early-stopping": "--patience 3",
        "--max-epochs": "it is --epochs",
    }.items():
        assert said in (unknown_options(parser, "train", [option, "1"]).hint or "")


def test_a_required_option_under_another_name_is_named():
    with pytest.raises(UsageError, match="--lr --find-lr is required") as failure:
        build_parser().parse_args(["train", "a.odtc", "--data", "d", "--learning-rate", "1"])
    assert "there is no --learning-rate: the learning rate" in (failure.value.hint or "")


def test_schedules_show_their_own_names():
    assert {"Cosine", "Warmup"} <= set(dir(odtc.schedules))
    assert "dataclass" not in dir(odtc.schedules)
