"""From gradients to new weights: the kernels of the optimizer's update."""
