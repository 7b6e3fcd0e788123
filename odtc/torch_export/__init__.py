"""Writes a PyTorch module as an ONNX file that trains as the module does."""
