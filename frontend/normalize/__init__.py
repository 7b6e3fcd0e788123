"""ONNX to simpler ONNX: what the importer and the gradient rules meet is one form of each idea."""
