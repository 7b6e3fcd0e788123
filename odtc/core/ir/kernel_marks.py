"""Marks on any kernel: how it is scheduled, its share of work, what it may be fused with."""

# Attribute of a kernel that came with its schedule and wants no further one.
IS_SCHEDULED = "tirx.is_scheduled"
# Annotation of a loop whose iterations may run at once, wherever it stands: the most of them.
INDEPENDENT = "odtc.independent"
# Attribute of a kernel that does its work in one of so many calls.
ONE_OF = "odtc.one_of"
# Attribute of a kernel that has rows by their number: bytes of its tensors that it leaves alone.
UNTOUCHED = "odtc.untouched"
# Attribute of a kernel whose allocations are as large as what it uses of them.
EXACT = "odtc.exact"
# Attribute of a kernel that adds a gradient's total up: of how many micro-batches it looks at one.
TOTAL_OF = "odtc.total_of"

# Attribute that says what a kernel may be fused with, and its values, TVM's classes: with nothing;
# with what stands in front of it, never with its readers, as a reduction; with elementwise
# operators after it, as a convolution.
PATTERN = "op_pattern"
OPAQUE = 8
SINK = 3
FUSABLE = 4
