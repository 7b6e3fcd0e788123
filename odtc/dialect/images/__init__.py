"""Operators on batches of images."""
