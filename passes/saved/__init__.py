"""What the backward pass reads of the forward pass."""
