"""Trained models as ONNX files: written, run as their users will run them, and compared."""
