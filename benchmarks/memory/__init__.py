"""Memory of whole training steps, of odtc and its peers: `python -m benchmarks.memory`.

All train the same weights on the same batch with plain SGD, without momentum: onnxruntime-training
has none. Nothing is recomputed. What is compared:

- **odtc**: the arena of the step, with workspaces of kernels for the threads that it is run with;
  the solver's lower bound for the order of its calls; parameters (running statistics too) and
  optimizer state, as compiled. Arena, parameters and state are the total. A fresh process then
  takes three steps, measured as those of the peers below: its growth is shown beside the total
  and the tensors that hold the batch.
- **TVM**: the same forward pass, loss, gradients and kernels, with updates as `relax.training`
  makes them: after all gradients, and into new parameters, which the step returns beside those
  that it was given; storage, that of workspaces too, is planned by TVM's `StaticPlanBlockMemory`.
  Its total is what that plans, the new parameters and statistics, the parameters and the optimizer
  state. `relax.training` has two functions, so that no gradient's storage serves anything else;
  here they are one, in TVM's favour. Beside it **TVM's planner alone**: odtc's step with its
  updates in place, where only the planner is TVM's.
- **onnxruntime-training** and **PyTorch**, eager: the peak of the resident set of a fresh process
  during three steps. What is subtracted is its resident set after the imports, before a model is
  loaded, when what the C library holds free was given back. The batch was read before that; what
  loading a model needs is no part of the peak, but for what the process still holds.

PyTorch trains the module that was exported; where there is only an ONNX file, an interpreter of it.
Every task of every network runs in a process of its own. A task that fails says why, and the others
go on. The losses of the three steps are printed, to show that the same work was done.

`python -m benchmarks.memory.speed` compares the times of steps with the arena and with TVM's
planner alone.
"""
