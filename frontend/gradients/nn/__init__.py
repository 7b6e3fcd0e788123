"""Gradients of layers."""
