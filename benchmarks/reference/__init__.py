"""Reference trainers: the same ONNX model, trained by other people's engines."""
