"""Evidence that a tensor is a parameter: names, uses and values."""
