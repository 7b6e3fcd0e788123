"""`replace_head`: an ONNX model with a head for other classes, as a file."""

import os
from dataclasses import replace
from pathlib import Path

import onnx

from odtc.core.disk.outputs import check_outputs
from odtc.core.onnx_model.large_files import is_beside, new_model_file, said_of
from odtc.core.onnx_model.new_head import write_new_head
from odtc.core.onnx_model.weight_list import WeightList, read_weight_list, write_weight_list
from odtc.core.options.arguments import takes
from odtc.core.options.kinds import FLAG, PATH, TEXT, WHOLE, optional, whole_from
from odtc.driver.options.kinds import MODEL
from odtc.frontend.file.onnx_file import check_model, load_model, modern
from odtc.frontend.file.specialize import read_graph
from odtc.frontend.heads.replace import Head, put_head
from odtc.frontend.weights.finding import Kind
from odtc.frontend.weights.in_file import data_files


@takes(
    "odtc.replace_head",
    "",
    {"output": "of", "freeze": "freeze_backbone"},
    model=MODEL,
    classes=WHOLE,
    path=PATH,
    of=optional(TEXT),
    at=optional(TEXT),
    freeze_backbone=FLAG,
    seed=whole_from(0),
)
def replace_head(
    model: str | os.PathLike[str],
    classes: int,
    path: str | os.PathLike[str],
    *,
    of: str | None = None,
    at: str | None = None,
    freeze_backbone: bool = False,
    seed: int = 0,
) -> Head:
    """Writes a copy of a model with a classifier for other classes.

    Args:
        model: path of the ONNX file.
        classes: number of classes of the new head.
        path: path of the new file; not that of the model.
        of: output whose classifier is replaced; by default the first that has one.
        at: feature tensor after which to cut the model, and to append pooling and a linear layer.
        freeze_backbone: whether to mark all parameters except those of the head as frozen in the
            file: these are then not trained, unless they are selected by name.
        seed: seed of the new weights.

    Returns:
        What was done.

    Raises:
        ModelError: the model cannot be read.
        UsageError: an argument does not fit the model.
        UnsupportedError: no classifier was found; pass `at` to say where the head goes.
        OutputError: the file cannot be written.
    """
    inputs = {"the model": [model], "the model's data": data_files(Path(model))}
    check_outputs([path], inputs)
    changed = modern(load_model(model))
    listed, kinds = read_weight_list(changed), _kinds(changed)
    head = put_head(changed, classes, output=of, at=at, seed=seed)
    if freeze_backbone or listed is not None:
        weights = _weights(changed, kinds, head, freeze=freeze_backbone)
        ties = {} if listed is None else listed.ties
        names = {tensor.name for tensor in changed.graph.initializer}
        kept = {other: name for other, name in ties.items() if name in names}
        write_weight_list(changed, replace(weights, ties=kept))
    write_new_head(changed, (head.weight, head.bias))
    if freeze_backbone:
        head = replace(head, said=(*head.said, _frozen(changed)))
    check_model(changed, str(path))
    with new_model_file(changed, path):
        pass
    if is_beside(changed):
        head = replace(head, said=(*head.said, said_of(path)))
    return head


def _kinds(model: onnx.ModelProto) -> dict[str, Kind]:
    return {name: found.kind for name, found in read_graph(model).findings.items()}


def _weights(
    model: onnx.ModelProto, kinds: dict[str, Kind], head: Head, *, freeze: bool
) -> WeightList:
    """The weights of a model with a new head.

    Args:
        model: with the head.
        kinds: of the tensors that it had before.
        head: the new one.
        freeze: whether its parameters are the only ones that are trained.
    """
    own = (head.weight, head.bias)
    stored = [tensor.name for tensor in model.graph.initializer]
    learned = [n for n in stored if n in own or kinds.get(n) in (Kind.PARAMETER, Kind.FROZEN)]
    still = [n for n in learned if n not in own and (freeze or kinds[n] is Kind.FROZEN)]
    trained = [name for name in learned if name not in still]
    others = [name for name in stored if name not in trained]
    return WeightList(tuple(trained), tuple(others), tuple(still))


def _frozen(model: onnx.ModelProto) -> str:
    listed = read_weight_list(model)
    assert listed is not None
    norms = sum(node.op_type == "BatchNormalization" for node in model.graph.node)
    also = (
        f"; compile with --freeze-batch-norm, so that {norms} batch normalisations keep their "
        "statistics"
        if norms
        else ""
    )
    return f"{len(listed.frozen)} parameters are frozen, all but those of the head{also}"
