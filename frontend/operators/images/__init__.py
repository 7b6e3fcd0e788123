"""Operators over images: windows, padding, resizing, sampling, regions."""
