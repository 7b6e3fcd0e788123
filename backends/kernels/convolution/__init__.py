"""Convolutions and their gradients, of images whose channels come second.

`rules`, and `rules` of `backends/kernels/grouped/`, make one block of `terms` of an operator. Once
it is fused, `loops` gives it to `point_product` (one tap), `shifted_product` (several),
`weight_gradient` or `lane_gradient`, which walk over images that `staging` pads (`grid`,
`lane_blocks`); those in groups are in `backends/kernels/grouped/`.
"""
