"""From an ONNX file to a draft: a step before it has gradients."""
