"""Puts a new head on an ONNX classifier, where its scores are made or after a tensor."""
