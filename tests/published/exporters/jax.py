"""Functions of JAX by jax2onnx."""

import jax
import jax.numpy as jnp
import numpy as np
import onnx
from jax2onnx import to_onnx

from tests.published.exporters.asked import asked

# The newest that the project's onnxruntime runs.
OPSET = 21
_RNG = np.random.default_rng(0)


def _weight(*shape: int) -> jax.Array:
    return jnp.asarray(_RNG.standard_normal(shape) * 0.3, jnp.float32)


W1, B1, W2, B2 = _weight(8, 16), _weight(16), _weight(16, 4), _weight(4)
KERNEL, RECURRENT = _weight(3, 3, 1, 4), _weight(16, 16)


def mlp(x: jax.Array) -> jax.Array:
    """Two layers."""
    return jax.nn.relu(x @ W1 + B1) @ W2 + B2


def normed(x: jax.Array) -> jax.Array:
    """A layer whose input is normalised."""
    x = (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)
    return jax.nn.log_softmax(jax.nn.gelu(x @ W1 + B1) @ W2)


def cnn(x: jax.Array) -> jax.Array:
    """A convolution of images with channels last."""
    kernel = jax.lax.conv_general_dilated(
        x, KERNEL, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    return jnp.tanh(kernel).mean((1, 2)) @ W2[:4]


def attention(x: jax.Array) -> jax.Array:
    """A head that attends over the places of a sequence."""
    q, k, v = x @ W1[:, :8], x @ W1[:, 8:], x @ W1[:, 4:12]
    weights = jax.nn.softmax(q @ jnp.swapaxes(k, -1, -2) / jnp.sqrt(8.0))
    return jnp.einsum("bij,bjk->bik", weights, v).mean(1) @ W1[:8, :3]


def scanned(x: jax.Array) -> jax.Array:
    """A recurrence of jax.lax.scan."""

    def cell(state: jax.Array, row: jax.Array) -> tuple[jax.Array, None]:
        return jnp.tanh(row @ W1 + state @ RECURRENT + B1), None

    start = jnp.zeros((x.shape[0], 16), jnp.float32)
    state, _ = jax.lax.scan(cell, start, jnp.swapaxes(x, 0, 1))
    return state @ W2


MODELS = {
    "mlp": (mlp, ("B", 8)),
    "normed": (normed, ("B", 8)),
    "cnn": (cnn, ("B", 8, 8, 1)),
    "attention": (attention, ("B", 6, 8)),
    "scan": (scanned, ("B", 6, 8)),
}


def main() -> None:
    """Exports what the command line names."""
    for name, path in asked():
        function, shape = MODELS[name]
        onnx.save(to_onnx(function, [shape], opset=OPSET), path)


if __name__ == "__main__":
    main()
