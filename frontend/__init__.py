"""ONNX in, training graph out: normalisation, import, gradients, losses, optimizers."""
