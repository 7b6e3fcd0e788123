"""Models of Keras on TensorFlow, by tf2onnx."""

import numpy as np
import tensorflow as tf
import tf2onnx
from keras import Input, Model, Sequential, layers

from tests.published.exporters.asked import asked

OPSET = 18


def mlp() -> Model:
    """Dense layers."""
    return Sequential([Input((8,)), layers.Dense(16, activation="relu"), layers.Dense(4)])


def cnn() -> Model:
    """Images with channels last: convolutions, batch normalisation, pooling."""
    return Sequential(
        [
            *(Input((8, 8, 1)), layers.Conv2D(4, 3, activation="relu")),
            *(layers.BatchNormalization(), layers.MaxPooling2D(), layers.Flatten()),
            layers.Dense(10),
        ]
    )


def separable() -> Model:
    """Depthwise convolutions and a residual."""
    x = Input((8, 8, 4))
    y = layers.SeparableConv2D(4, 3, padding="same", activation="relu")(x)
    return Model(x, layers.Dense(3)(layers.GlobalAveragePooling2D()(layers.Add()([x, y]))))


def lstm() -> Model:
    """A recurrent layer, unrolled or not as Keras will have it."""
    return Sequential([Input((6, 5)), layers.LSTM(8), layers.Dense(3)])


def attention() -> Model:
    """An encoder layer."""
    x = Input((6, 8))
    y = layers.LayerNormalization()(x + layers.MultiHeadAttention(2, 4)(x, x))
    return Model(x, layers.Dense(3)(layers.GlobalAveragePooling1D()(y)))


MODELS = {"mlp": mlp, "cnn": cnn, "separable": separable, "lstm": lstm, "attention": attention}


def main() -> None:
    """Exports what the command line names."""
    for name, path in asked():
        model = MODELS[name]()
        model(np.zeros((2, *model.input_shape[1:]), "float32"))
        shape = tf.TensorSpec((None, *model.input_shape[1:]), tf.float32, "x")
        tf2onnx.convert.from_function(
            tf.function(model), [shape], opset=OPSET, output_path=str(path)
        )


if __name__ == "__main__":
    main()
