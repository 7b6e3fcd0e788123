"""Options that are given twice."""

import pytest

from odtc.cli.main import build_parser, main
from odtc.cli.repeated import repeated_notes


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("train a.odtc --device adb://A --lr 1 --device adb://B", "--device is given 2 times"),
        ("train a.odtc --data=a.csv --data b.csv --data c.csv", "--data is given 3 times"),
        ("compile m.onnx -o a.odtc --batch 4 --output b.odtc", "--output is given 2 times"),
        ("train a.odtc --device adb://A --device adb://A", ""),
        ("train a.odtc --data a.csv -- --data b.csv", ""),
        ("train --data a.csv a.odtc --lr 1 --data a.csv", ""),
        ("compile m.onnx --train a* --train b*", ""),
        ("device setup A --key a --key b", "--key is given 2 times"),
    ],
)
def test_the_last_one_counts(words: str, said: str) -> None:
    notes = repeated_notes(build_parser(), words.split())
    assert [each.partition(",")[0] for each in notes] == [said] * bool(said)


def test_it_is_a_note(capsys: pytest.CaptureFixture[str]) -> None:
    main(["train", "no.odtc", "--data", "a.npz", "--lr", "0.1", "--data", "b.npz"])
    note = "note: --data is given 2 times, and only the last counts: b.npz\n"
    assert note in capsys.readouterr().err
