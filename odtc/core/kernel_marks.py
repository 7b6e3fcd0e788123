"""Marks on kernels that the layers have to agree on; the names and values are TVM's."""

# Attribute of a kernel that came with its schedule and wants no further one.
IS_SCHEDULED = "tirx.is_scheduled"
# Attribute that says what a kernel may be fused with, and its value for "with nothing".
PATTERN = "op_pattern"
OPAQUE = 8
# Fused with what stands in front of it, never with its readers: TVM's class of reductions.
SINK = 3
