"""Weights and sizes in ONNX files, where reading and exporting have to agree."""
