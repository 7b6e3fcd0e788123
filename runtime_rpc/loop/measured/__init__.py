"""What a validation measures: the loss of a step, and metrics."""
