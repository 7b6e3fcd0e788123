"""What odtc does with each ONNX operator: one table per family."""
