"""A name that is nearly a known one: the error says which was meant."""

from pathlib import Path

import pytest

from odtc.cli.main import main
from odtc.core.errors import ExitCode
from tests.cli.training.digits import Digits

COMPILE, TRAIN = "compile {model} --batch 16", "train {artifact} --data {train} --lr 0.1"


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        (f"{COMPILE} --target host-cqu", "host-cpu"),
        (f"{COMPILE} --target android-opencl{{{{gpu=adreno640}}}}", "adreno-640"),
        (f"{COMPILE} --optimizer adamm", "adam"),
        (f"{COMPILE} --optimizer adamw{{{{weigth-decay=1}}}}", "weight-decay"),
        (f"{COMPILE} --loss crossentropi", "cross-entropy"),
        (f"{COMPILE} --loss cross-entropy{{{{label-smothing=1}}}}", "label-smoothing"),
        (f"{COMPILE} --precision mxied", "mixed"),
        (f"{COMPILE} --lora rnk=3", "rank"),
        (f"{COMPILE} --train lst{{{{k=1}}}}", "last"),
        (f"{COMPILE} --train fc1.wieght", "fc1.weight"),
        (f"{COMPILE} --on-nonfinite skp", "skip"),
        (f"{COMPILE} --loss-scale dynamc", "dynamic"),
        (f"{COMPILE} --set imge=1", "image"),
        (f"{COMPILE} --batch-axis logts=0", "logits"),
        (f"{COMPILE} --optmizer sgd", "--optimizer"),
        ("compile dd.onnx", "ddd.onnx"),
        (f"{TRAIN} --schedule cosin", "cosine"),
        (f"{TRAIN} --schedule step{{{{evry=1}}}}", "every"),
        (f"{TRAIN} --augment flp", "flip"),
        (f"{TRAIN} --validation {{test}} --metrics acuracy", "accuracy"),
        (f"{TRAIN} --cores bigg", "big"),
        ("train {artifact} --data trian.npz --lr 1", "train.npz"),
        ("bench --suite emdl2", "emdl21"),
        ("compare {model} --with pytorhc", "pytorch"),
        ("completion bsh", "bash"),
        ("inti", "init"),
    ],
)
def test_what_was_meant(line: str, meant: str, digits: Digits, here: Path, capsys):
    (here / "train.npz").touch()
    (here / "ddd.onnx").touch()
    words = [word.format(**vars(digits)) for word in line.split()]
    assert main(words) != ExitCode.OK
    said = capsys.readouterr().err
    assert f"did you mean {meant}?" in said or f"give {meant}," in said
