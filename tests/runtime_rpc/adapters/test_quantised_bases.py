"""Adapters over a base of 4 or 8 bits: PEFT and llama.cpp stand them beside what it stands for."""

import copy
import json
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import helper, numpy_helper
from peft import PeftModel
from torch import nn

import odtc
from odtc.core.coded import BFLOAT16
from odtc.core.errors import ArtifactError
from tests.fast import fast_if
from tests.runtime_rpc.adapters.language_models import BATCH, LANGUAGES, language, tokens
from tests.runtime_rpc.adapters.llama_cpp import next_word, write_model
from tests.runtime_rpc.adapters.sides import ALPHA, LOSS, RANK, adapted, logits

LR, BLOCK = 1e-2, 16
# PEFT says that it saves embeddings, too.
pytestmark = pytest.mark.filterwarnings("ignore:Setting `save_embedding_layers`")
LORA = odtc.LoRA(rank=RANK, alpha=ALPHA, targets=LANGUAGES["llama"].globs.replace(".weight", "*"))
# The matrices of a model by name, as floats.
Dense = dict[str, np.ndarray]


def as_qdq(model: onnx.ModelProto) -> Dense:
    """Puts int8 with a scale for each row in the place of matrices, as onnxruntime's quantizer."""
    dense = {}
    for tensor in [each for each in model.graph.initializer if len(each.dims) == 2]:
        name, value = tensor.name, numpy_helper.to_array(tensor)
        scale = np.abs(value).max(1) / np.float32(127)
        codes = np.rint(value / scale[:, None]).astype(np.int8)
        dense[name] = codes * scale[:, None]
        put(model, name, {"_quantized": codes, "_scale": scale})
        made = [f"{name}_quantized", f"{name}_scale"]
        output = f"{name}_DequantizeLinear_Output"
        for node in model.graph.node:
            node.input[:] = [output if each == name else each for each in node.input]
        model.graph.node.insert(0, helper.make_node("DequantizeLinear", made, [output], axis=0))
    return dense


def as_nbits(model: onnx.ModelProto) -> Dense:
    """Puts MatMulNBits of 4 bits in the place of products with matrices that are transposed."""
    dense, nodes = {}, [*model.graph.node]
    by_input = {each: node for node in nodes for each in node.input}
    for tensor in [each for each in model.graph.initializer if "_proj" in each.name]:
        name, value = tensor.name, numpy_helper.to_array(tensor)
        rows, depth = value.shape
        padded = np.pad(value, ((0, 0), (0, -depth % BLOCK))).reshape(rows, -1, BLOCK)
        scales = np.abs(padded).max(2) / np.float32(7)
        codes = (np.rint(padded / scales[..., None]) + 8).astype(np.uint8)
        floats = (codes.astype(np.float32) - 8) * scales[..., None]
        dense[name] = floats.reshape(rows, -1)[:, :depth]
        packed = codes[..., 0::2] | codes[..., 1::2] << 4
        put(model, name, {"_Q4": packed, "_scales": scales.reshape(-1)})
        turned = by_input[name]
        product = by_input[turned.output[0]]
        assert (turned.op_type, product.op_type) == ("Transpose", "MatMul")
        made = helper.make_node(
            "MatMulNBits",
            [product.input[0], f"{name}_Q4", f"{name}_scales"],
            [*product.output],
            domain="com.microsoft",
            **{"K": depth, "N": rows, "bits": 4, "block_size": BLOCK},
        )
        product.CopyFrom(made)
        model.graph.node.remove(turned)
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    return dense


def put(model: onnx.ModelProto, name: str, tensors: Dense) -> None:
    """Replaces a tensor by some, whose names go on from its own."""
    (old,) = (each for each in model.graph.initializer if each.name == name)
    model.graph.initializer.remove(old)
    for suffix, value in tensors.items():
        model.graph.initializer.append(numpy_helper.from_array(value, name + suffix))


FILES: dict[str, Callable[[onnx.ModelProto], Dense]] = {"qdq": as_qdq, "nbits": as_nbits}
FORMATS = ("int8", "int4{block=16}", *FILES)


def over(form: str, folder: Path, lora: odtc.LoRA = LORA) -> tuple[nn.Module, odtc.Artifact]:
    """A model with the weights that a base stands for, and a step over that base."""
    module, path = language("llama"), folder / "m.onnx"
    odtc.from_torch(module, {"input_ids": tokens(0)[0]}, path)
    quantize = None if form in FILES else form
    dense: Dense = {}
    if form in FILES:
        model = onnx.load(path)
        dense = FILES[form](model)
        onnx.save(model, path)
    artifact = odtc.compile(
        path, batch=BATCH, optimizer="adamw", loss=LOSS, lora=lora, params=[], quantize=quantize
    )
    if quantize:
        dense = artifact.trainer(threads=1).parameters()
    state = module.state_dict()
    found = {name: torch.from_numpy(dense[name].copy()) for name in state.keys() & dense.keys()}
    assert any((state[name] != value).any() for name, value in found.items())
    module.load_state_dict(state | found)
    return module, artifact


@pytest.mark.parametrize("form", fast_if("nbits".__eq__, FORMATS))
def test_peft_and_llama_cpp_say_what_the_step_does(form: str, tmp_path: Path) -> None:
    module, artifact = over(form, tmp_path)
    theirs = adapted("llama", module).train()
    theirs.save_pretrained(tmp_path / "theirs")
    trainer = artifact.trainer(threads=1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        trainer.load_adapters(tmp_path / "theirs")
    *said, of_base = [str(each.message) for each in caught]
    assert "nothing says over which base" in of_base
    # PEFT has put the embedding and the head into the folder, as both are adapted.
    assert len(said) == (form != "nbits")
    assert all("lm_head.weight, model.embed_tokens.weight of its base" in each for each in said)
    optimizer = torch.optim.AdamW(
        [each for each in theirs.parameters() if each.requires_grad], lr=LR, weight_decay=0.01
    )
    for seed in range(5):
        ids, labels = tokens(seed)
        optimizer.zero_grad()
        scores = theirs(input_ids=ids).logits.flatten(0, 1)
        loss = nn.functional.cross_entropy(scores, labels.flatten())
        loss.backward()
        optimizer.step()
        assert trainer.step(ids.numpy(), labels.numpy(), lr=LR) == pytest.approx(
            loss.item(), rel=1e-5
        )

    ids, _ = tokens(9)
    expected = trainer.evaluate(ids.numpy())
    trainer.export_peft(tmp_path / "mine", base_model="tiny")
    again = PeftModel.from_pretrained(copy.deepcopy(module), tmp_path / "mine")
    assert np.abs(expected - logits(module, ids)).max() > 1e-2
    np.testing.assert_allclose(logits(again, ids), expected, rtol=1e-5, atol=2e-5)

    module.config.save_pretrained(tmp_path)
    trainer.export_gguf(tmp_path / "adapters.gguf", tmp_path)
    write_model(tmp_path / "model.gguf", module)
    words = torch.log_softmax(torch.tensor(expected[0, -1]), -1).numpy()
    plain = next_word(tmp_path / "model.gguf", ids[0])
    found = next_word(tmp_path / "model.gguf", ids[0], tmp_path / "adapters.gguf")
    assert np.abs(plain - words).max() > 0.01
    np.testing.assert_allclose(found, words, atol=5e-3)

    other = artifact.trainer(threads=1)
    other.load_adapters(tmp_path / "mine")
    np.testing.assert_array_equal(other.evaluate(ids.numpy()), expected)


def test_a_module_that_was_trained_whole_is_no_base_of_codes(tmp_path: Path) -> None:
    module, artifact = over("int8", tmp_path)
    theirs = adapted("llama", module)
    theirs.save_pretrained(tmp_path / "theirs")
    config = tmp_path / "theirs/adapter_config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"modules_to_save": ["lm_head"]}))
    trainer = artifact.trainer(threads=1)
    before = trainer.parameters()
    with pytest.raises(ArtifactError, match=r"lm_head was trained whole, and the step keeps lm_h"):
        trainer.load_adapters(tmp_path / "theirs")
    after = trainer.parameters()
    assert all((after[name] == value).all() for name, value in before.items())


def test_a_base_of_bfloat16_keeps_its_bytes(tmp_path: Path) -> None:
    """A step has them as uint16, and PEFT's copies of embeddings are floats."""
    module = language("llama").to(torch.bfloat16)
    path = tmp_path / "m.onnx"
    odtc.from_torch(module, {"input_ids": tokens(0)[0]}, path)
    artifact = odtc.compile(path, batch=BATCH, loss=LOSS, lora=LORA, params=[])
    assert {each.stored for each in artifact.manifest.coded} == {BFLOAT16}
    adapted("llama", module).save_pretrained(tmp_path / "theirs")
    trainer = artifact.trainer(threads=1)
    before = trainer.parameters()
    with pytest.warns(UserWarning, match="those stay as they are"):
        trainer.load_adapters(tmp_path / "theirs")
    after = trainer.parameters()
    frozen = {each.weight for each in artifact.manifest.coded}
    assert frozen >= {"lm_head.weight", "model.embed_tokens.weight"}
    assert all((after[name] == before[name]).all() for name in frozen)
