"""Names that the layers have to agree on: marks on kernels, and operators of our own."""

# Attribute of a kernel that came with its schedule and wants no further one.
IS_SCHEDULED = "tirx.is_scheduled"
# Attribute of a kernel that does its work in one of so many calls.
ONE_OF = "odtc.one_of"
# Attribute of a kernel that marks the loss, its last argument, where it writes what is not finite.
MARKS_LOSS = "odtc.marks_loss"
# Attribute of a kernel that has rows by their number: bytes of its tensors that it leaves alone.
UNTOUCHED = "odtc.untouched"
# Attribute of an update that does nothing but take the gradient, times the learning rate and this
# factor, from a weight: where there is no gradient, nothing changes.
PLAIN_UPDATE = "odtc.plain_update"
# Attribute that says what a kernel may be fused with, and its value for "with nothing".
PATTERN = "op_pattern"
OPAQUE = 8
# Fused with what stands in front of it, never with its readers: TVM's class of reductions.
SINK = 3
# Annotation of a loop whose iterations may run at once, wherever it stands: the most of them.
INDEPENDENT = "odtc.independent"
# Attribute of a kernel whose loops come from a tuning record: which one, as text.
TUNED = "odtc.tuned"
# Attribute of a product's kernel: what it computes, as text; see `backends/cost/workload.py`.
WORKLOAD = "odtc.workload"
# Attribute of a kernel whose allocations are as large as what it uses of them.
EXACT = "odtc.exact"
# Attributes of a kernel whose code may be kept, see `backends/objects/outlines.py`: a hash of all
# that it is made from; bytes of its workspace, by the most threads that run it; places of the
# operands that its result may lie over, and of the one that it does.
MADE_FROM = "odtc.made_from"
WORKSPACES = "odtc.workspaces"
REPLACEABLE = "odtc.replaceable"
WRITTEN_OVER = "odtc.written_over"
# Attribute of a kernel that is an outline: its code is kept, and nothing of it is in the module.
OUTLINE = "odtc.outline"
# Attribute of a kernel that is a convolution in Winograd's form.
WINOGRAD = "odtc.winograd"
# Elementwise operators after it may be fused with it: TVM's class of convolutions.
FUSABLE = 4
# Mark of a block that is a product: its family, and the numbers that describe it.
PRODUCT = "odtc.product"
# Mark of a product whose first operand is normalised as it is read: see `Normal` in
# `backends/kernels/norm/normalised.py`.
READ_NORMALISED = "odtc.read_normalised"
