"""Attention and rotary embeddings."""

import numpy as np

from tests.numeric.conftest import text_model, weight

RNG = np.random.default_rng(4)
MASK = RNG.random((4, 6)) < 0.6
MASK[1] = False
KV = {"k": weight(2, 2, 6, 5), "v": weight(2, 2, 6, 3)}
FLAT = {"k": weight(2, 6, 10), "v": weight(2, 6, 10, seed=1)}
QUERY = (2, 4, 4, 5)
SELF = "y = Attention <{}> (h, h, h)"


def _attention(attributes, inputs="", shape=QUERY, **tensors):
    return text_model(f"y = Attention <{attributes}> (h, k, v{inputs})", shape, opset=23, **tensors)


CASES = {
    "Attention": _attention("scale = 0.3", parameters=KV),
    "Attention-causal": text_model(
        SELF.format("is_causal = 1, softcap = 2.0"), (2, 3, 5, 4), opset=23
    ),
    "Attention-flat": _attention(
        "q_num_heads = 4, kv_num_heads = 2", shape=(2, 4, 20), parameters=FLAT
    ),
    "Attention-mask": _attention("scale = 0.3", ", m", parameters=KV, constants={"m": MASK}),
    "Attention-bias": _attention("scale = 0.3", ", m", parameters={**KV, "m": weight(4, 6)}),
    "Attention-past": _attention(
        "is_causal = 1",
        ", , pk, pv",
        parameters={**KV, "pk": weight(2, 2, 2, 5), "pv": weight(2, 2, 2, 3)},
    ),
    "RotaryEmbedding": text_model(
        "y = RotaryEmbedding (h, c, s, i)",
        (2, 3, 4, 6),
        parameters={"c": weight(9, 3), "s": weight(9, 3, seed=1)},
        constants={"i": RNG.integers(0, 9, (2, 4))},
        opset=23,
    ),
    "RotaryEmbedding-flat": text_model(
        "y = RotaryEmbedding <num_heads = 3, rotary_embedding_dim = 4, interleaved = 1> (h, c, s)",
        (2, 4, 18),
        parameters={"c": weight(2, 4, 2), "s": weight(2, 4, 2, seed=1)},
        opset=23,
    ),
}
