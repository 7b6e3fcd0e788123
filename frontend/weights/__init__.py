"""Classifies the weights of a file by what it says, and by their use where it says nothing.

Every float tensor of a file is a parameter, a buffer or a constant (`classify`). The evidence, in
order:

1. the list of names that `odtc.from_torch` leaves in the file;
2. what PyTorch's exporter by `torch.export` leaves: the signature of the exported program, the kind
   of each initializer, which tensors it computed a constant of, and which parameters each call read
   (`torch_metadata`);
3. how the tensor is used (`rule`, with `values` for what no training leaves behind). The rule would
   rather leave a weight untrained than train a constant, and what is doubtful becomes a note that
   names the option that overrules it.

A name says that a tensor is an entry of a state dict, never that it is a parameter: buffers have
names, too.

What an exporter merged is separated again when a file is read (`restore`), in the ONNX model
itself: equal tensors that are several parameters, transposed copies, biases of zeros that were left
out. What cannot be brought back, such as folded batch normalisations, is named (`losses`).
"""
