"""Graphs that were edited: most are valid ONNX, and each is refused or trains to finite values."""
