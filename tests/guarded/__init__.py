"""Steps whose tensors lie between pages that nobody may touch."""
