"""Which tensors of a step are dropped and computed again, so that it fits a budget of bytes."""
