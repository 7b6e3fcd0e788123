"""Support of each ONNX operator: one table per family."""
