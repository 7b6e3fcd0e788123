"""What passes read and write: bindings, calls, kernels and their tensors."""
