"""An ONNX file until it is a graph of static shapes: read, checked, repaired, symbols bound."""
