"""Suites of models for `odtc bench`: a table of TOML for each, and what makes their models.

A suite names its models and batches, the figures that its paper published, and a command that makes
a model: it is called with a name, a batch and a folder, writes `model.onnx` and `data.npz` there,
and prints one JSON object: `loss`, `lr` and, where PyTorch can take part, `module`.
"""
