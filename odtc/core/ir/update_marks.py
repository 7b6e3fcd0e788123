"""Marks on updates of weights, and on kernels that say whether a step may update at all."""

# Of a kernel that marks the loss, its last argument, where it writes what is not finite.
MARKS_LOSS = "odtc.marks_loss"
# Of an update that does nothing but take the gradient, times the learning rate and this factor,
# from a weight: where there is no gradient, nothing changes.
PLAIN_UPDATE = "odtc.plain_update"
