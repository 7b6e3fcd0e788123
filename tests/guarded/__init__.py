"""Steps whose tensors lie between guard pages, which may not be accessed."""
