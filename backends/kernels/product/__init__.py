"""Products of matrices, and the tile of registers that all products share.

`matmul` makes one block of an operator. Once it is fused (`fused`), `loops` gives it to `packed`,
`panel`, `deep`, `row` or `thin`, by its shape. All of them fill a `tile`.
"""
