"""Ways to go wrong with tuning and its records."""

from tests.errors.place import Argv, Cause, Place


def tune(*options: str) -> Cause:
    """`odtc tune` of the digits model."""
    return lambda place: ["tune", str(place.digits.model), "--batch", "2", *options]


def with_database(command: str, text: str) -> Cause:
    """A command on the digits model, with records in a file that holds this already."""

    def cause(place: Place) -> Argv:
        file = str(place.write("records.jsonl", text.encode()))
        return [command, str(place.digits.model), "--batch", "2", "--database", file]

    return cause


def tune_into_no_folder(place: Place) -> Argv | None:
    """`odtc tune` with records below a file."""
    file = place.write("file", b"") / "records.jsonl"
    return tune("--database", str(file))(place)


def merge_nothing(place: Place) -> Argv:
    """`odtc db merge` of a file that is not there."""
    own = str(place.inputs / "records.jsonl")
    return ["db", "merge", str(place.inputs / "others.jsonl"), "--database", own]
