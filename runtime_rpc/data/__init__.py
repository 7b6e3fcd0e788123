"""Samples to train with: what holds them, how files of them are read, and the batches of a run."""
