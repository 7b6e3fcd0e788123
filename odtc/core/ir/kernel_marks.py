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
# Attribute of an operator of ours that maps the elements of a tensor.
MAPS = "odtc.maps"
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
# `(data, step)` with the attributes ratio, stream and seed; see `backends/kernels/draw/dropout.py`.
DROPOUT = "odtc.dropout"
# `(step)` with the attributes shape, keep, stream and seed; see
# `backends/kernels/draw/generator.py`.
RANDOM = "odtc.random"
# Elementwise operators after it may be fused with it: TVM's class of convolutions.
FUSABLE = 4
# Mark of a block that is a product: its family, and the numbers that describe it.
PRODUCT = "odtc.product"
# See `frontend/relax_ops/grouped_weight_gradient.py`.
GROUPED_WEIGHT_GRADIENT = "odtc.grouped_weight_gradient"
# Batch normalisation in training, and its gradient; see `backends/kernels/norm/batch_norm.py`.
BATCH_NORM = "odtc.batch_norm"
BATCH_NORM_BACKWARD = "odtc.batch_norm_backward"
# Its statistics alone, and what their readers make of its data; see
# `passes/graph/read_normalised.py`.
BATCH_STATISTICS = "odtc.batch_statistics"
NORMALISED = "odtc.normalised"
# Mark of a product whose first operand is normalised as it is read: see `Normal` in
# `backends/kernels/norm/normalised.py`.
READ_NORMALISED = "odtc.read_normalised"
# The activations that it can apply; their gradients read their results.
ACTIVATIONS = ("relax.nn.relu", "odtc.relu6")
# The gradient of layer and RMS normalisation; see `backends/kernels/norm/layer_norm.py`.
LAYER_NORM_BACKWARD = "odtc.layer_norm_backward"
# The gradient of group normalisation; see `backends/kernels/norm/group_norm.py`.
GROUP_NORM_BACKWARD = "odtc.group_norm_backward"
# Softmax with zeros where a row is masked as a whole, and the gradient of softmax or its
# logarithm over the last dimension; see `backends/kernels/rows/softmax.py`.
SAFE_SOFTMAX = "odtc.safe_softmax"
SOFTMAX_BACKWARD = "odtc.softmax_backward"
# Cross-entropy of rows of logits, and its derivative; see `backends/kernels/rows/cross_entropy.py`.
CROSS_ENTROPY = "odtc.cross_entropy"
CROSS_ENTROPY_SLOPE = "odtc.cross_entropy_slope"
# A copy of images into another layout, which the attribute `to` names.
RELAYOUT = "odtc.relayout"
# A concat of the channels of images that have these last.
CONCAT_LAST = "odtc.concat_last"
