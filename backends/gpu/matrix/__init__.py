"""Products whose matrices of 16 x 16 elements a subgroup multiplies as a whole."""
