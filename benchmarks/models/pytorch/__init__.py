"""Models that people train with PyTorch, with random weights, and their exports to ONNX.

No weights are downloaded: architectures come from torchvision, timm, transformers or this folder,
initial values from a seed.
"""
