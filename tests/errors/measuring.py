"""Ways to go wrong with samples, profiles and sweeps."""

from collections.abc import Callable

from odtc.runtime_rpc.trainer import Trainer
from tests.errors.place import Argv, Cause, Place


def profile(*options: str) -> Cause:
    """`odtc profile` of the digits artifact."""

    def cause(place: Place) -> Argv:
        return ["profile", str(place.digits.artifact), *options]

    return cause


def sweep(*options: str) -> Cause:
    """`odtc sweep` of the digits artifact."""
    return lambda place: ["sweep", str(place.digits.artifact), *options]


def sweep_into(rows: str) -> Cause:
    """`odtc sweep` of the digits artifact, with rows in a file that holds this already."""

    def cause(place: Place) -> Argv:
        return sweep("-o", str(place.write("rows.jsonl", rows.encode())))(place)

    return cause


def sweep_of_a_model(place: Place) -> Argv:
    """`odtc sweep` of a model that is to have no batch."""
    return ["sweep", str(place.digits.model)]


def sweep_of_the_same(place: Place) -> Argv:
    """`odtc sweep` of an artifact, twice."""
    return ["sweep", *[str(place.digits.artifact)] * 2]


def measured(use: Callable[[Trainer], object]) -> Cause:
    """Something that is done with a trainer of the digits artifact."""

    def cause(place: Place) -> None:
        from odtc.artifact import load

        use(load(place.digits.artifact).trainer())

    return cause


def samples_too_early(trainer: Trainer) -> None:
    """Samples that are read within the block."""
    with trainer.session.sampling() as sampling:
        _ = sampling.samples


def profile_too_early(trainer: Trainer) -> None:
    """A profile that is read within the block."""
    with trainer.profile() as profiling:
        _ = profiling.profile


def profile_of_nothing(trainer: Trainer) -> None:
    """A block without a step."""
    with trainer.profile():
        pass


def profile_within_another(trainer: Trainer) -> None:
    """Two blocks of one trainer."""
    with trainer.profile(), trainer.profile():
        pass


def stock_server(trainer: Trainer) -> None:
    """Samples of a device whose server is TVM's."""
    from tvm import rpc

    from odtc.runtime_rpc.sessions.remote import RemoteSession

    RemoteSession("rpc://127.0.0.1:9190/pixel", rpc.LocalSession()).sampling().__enter__()


def another_log(trainer: Trainer) -> None:
    """A log that is none of tegrastats."""
    from odtc.runtime_rpc.metrics.tegrastats import parse_tegrastats

    parse_tegrastats(["top - 02:18:51 up 16:07"], 1.0)


def comparison(*options: str) -> Cause:
    """`odtc compare` of the digits model."""
    return lambda place: ["compare", str(place.digits.model), *options]


def comparison_into(rows: str) -> Cause:
    """`odtc compare` of the digits model, with rows in a file that holds this already."""

    def cause(place: Place) -> Argv:
        return comparison("-o", str(place.write("rows.jsonl", rows.encode())))(place)

    return cause


def other_losses(place: Place) -> None:
    """A comparison in which a peer had other losses."""
    from odtc.cli.measuring.compare import raise_mismatch
    from odtc.comparison.outcome import Outcome
    from odtc.comparison.results import results_of
    from odtc.comparison.row import ComparisonRow, Setting

    at = Setting("net", 4, 1)
    rows = [
        ComparisonRow(at, 0, "odtc", Outcome.TRAINED),
        ComparisonRow(at, 0, "mnn", Outcome.MISMATCH, "its losses are 2.0; those of odtc are 2.1"),
    ]
    raise_mismatch(results_of(rows))


def report_of(text: str) -> Cause:
    """`odtc report` of a file that holds this."""
    return lambda place: ["report", str(place.write("rows.jsonl", text.encode()))]


def bench_of(table: str) -> Cause:
    """`odtc bench` of a suite with this table."""

    def cause(place: Place) -> Argv:
        rows = str(place.write("rows.jsonl", b""))
        return ["bench", "--suite", str(place.write("own.toml", table.encode())), "-o", rows]

    return cause
