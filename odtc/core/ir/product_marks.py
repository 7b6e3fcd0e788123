"""Marks on products: matrix products and convolutions, whose loops are written apart."""

# Of a block that is a product: its family, and the numbers that describe it.
PRODUCT = "odtc.product"
# Of a product whose first operand is normalised as it is read: see `Normal` in
# `backends/kernels/norm/normalised.py`.
READ_NORMALISED = "odtc.read_normalised"
# Of a product whose second operand is dequantised as it is read: see `Quantised` in
# `backends/kernels/common/quantised.py`.
READ_QUANTISED = "odtc.read_quantised"
# Attribute of a product's kernel: what it computes, as text; see `backends/cost/workload.py`.
WORKLOAD = "odtc.workload"
# Attribute of a kernel whose loops come from a tuning record: which one, as text.
TUNED = "odtc.tuned"
# Attribute of a kernel that is a convolution in Winograd's form.
WINOGRAD = "odtc.winograd"
