"""What tells a parameter from other tensors: names, uses and values."""
