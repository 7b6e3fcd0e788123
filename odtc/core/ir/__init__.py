"""Names and attributes of kernels, calls and tensors that the layers have to agree on."""
