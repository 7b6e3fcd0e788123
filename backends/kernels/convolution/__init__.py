"""Convolutions and their gradients, of images whose channels come second.

`rules` and `grouped_rules` make one block of `terms` of an operator. Once it is fused, `loops`
gives it to `point_product` (one tap), `shifted_product` (several), `weight_gradient`,
`lane_gradient`, `grouped_product` or `depthwise`, which walk over images that `staging` pads
(`grid`, `lane_blocks`).
"""
