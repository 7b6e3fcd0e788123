"""Models of Keras 3 on PyTorch, by Keras's own export."""

import os

os.environ["KERAS_BACKEND"] = "torch"

import numpy as np
from keras import Input, Model, Sequential, layers

from tests.published.exporters.asked import asked


def cnn() -> Sequential:
    """Convolution, batch normalisation, dense."""
    return Sequential(
        [
            *(Input((8, 8, 1)), layers.Conv2D(4, 3, activation="relu")),
            *(layers.BatchNormalization(), layers.MaxPooling2D(), layers.Flatten()),
            layers.Dense(10),
        ]
    )


def gru() -> Sequential:
    """A recurrent layer with `reset_after`, as by default."""
    return Sequential([Input((6, 5)), layers.GRU(8), layers.Dense(3)])


def lstm() -> Sequential:
    """A recurrent layer that gives all its states."""
    layer = layers.LSTM(8, return_sequences=True)
    return Sequential([Input((6, 5)), layer, layers.TimeDistributed(layers.Dense(3))])


def separable() -> Model:
    """Depthwise convolutions and a residual."""
    x = Input((8, 8, 4))
    y = layers.SeparableConv2D(4, 3, padding="same", activation="relu")(x)
    return Model(x, layers.Dense(3)(layers.GlobalAveragePooling2D()(layers.Add()([x, y]))))


MODELS = {"cnn": cnn, "gru": gru, "lstm": lstm, "separable": separable}


def main() -> None:
    """Exports what the command line names."""
    for name, path in asked():
        model = MODELS[name]()
        model(np.zeros((2, *model.input_shape[1:]), "float32"))
        model.export(path, format="onnx", verbose=False)


if __name__ == "__main__":
    main()
