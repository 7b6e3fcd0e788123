"""Reading and writing of the IR: bindings, calls, kernels and their tensors."""
