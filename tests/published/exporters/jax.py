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
KERNEL = _weight(3, 3, 1, 4)


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


MODELS = {"mlp": (mlp, ("B", 8)), "normed": (normed, ("B", 8)), "cnn": (cnn, ("B", 8, 8, 1))}


def main() -> None:
    """Exports what the command line names."""
    for name, path in asked():
        function, shape = MODELS[name]
        onnx.save(to_onnx(function, [shape], opset=OPSET), path)


if __name__ == "__main__":
    main()
