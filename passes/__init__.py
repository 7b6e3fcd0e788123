"""Rewrites of the training step: the pass contract, the pipeline text, and the passes."""
