"""What kernels of all families are written with."""
