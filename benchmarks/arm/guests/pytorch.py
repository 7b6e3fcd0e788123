"""Steps of PyTorch in the emulator: pytorch.py STEPS RATE MODE.

`step.pt` gives the loss of a batch. MODE is `onednn`, PyTorch as it is, or `native`: without that.
"""

import sys

import numpy as np
import torch
from marks import count


def main() -> None:
    """Takes steps by SGD."""
    steps, rate, mode = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
    torch.set_num_threads(1)
    torch.backends.mkldnn.set_flags(mode == "onednn")
    # PyTorch 2 would compile what was traced into other kernels than a module's user has.
    torch._C._jit_set_profiling_executor(False)
    torch._C._jit_set_texpr_fuser_enabled(False)
    module = torch.jit.load("step.pt")
    with np.load("batch.npz") as arrays:
        batch = [torch.from_numpy(arrays[name]) for name in arrays.files]
    trained = [each for each in module.parameters() if each.requires_grad]
    optimizer = torch.optim.SGD(trained, rate)

    def step() -> float:
        optimizer.zero_grad()
        loss = module(*batch)
        loss.backward()
        optimizer.step()
        return loss.item()

    count(step, steps)


if __name__ == "__main__":
    main()
