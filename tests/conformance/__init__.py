"""ONNX's own conformance tests, run against `odtc.onnx_backend`."""
