"""Damaged models: each is refused with a clear error, or takes a step of training."""
