"""Detection of what a module's forward does that an ONNX file may not reproduce."""
