"""Training steps on a GPU beside PyTorch's, and where their time goes.

    python -m benchmarks.gpu.prepare FOLDER --networks squeezenet,resnet50
    python -m benchmarks.gpu.run FOLDER

The first wants odtc, the second a GPU: they may run on different machines. The second needs PyTorch
with CUDA, torchvision and transformers for the modules, numpy and the runtime of TVM (not its
compiler), and the GPU's OpenCL driver; for steps that were prepared with `--target
'host-vulkan{mcpu=x86-64-v3}'`, its Vulkan driver and loader. A folder may hold steps of both. Both
sides train the same module from the same weights on the same batch, in float32 (without TF32), by
plain SGD; a step begins with the batch in the host's memory and ends when the loss is there.

With `--precision mixed` both are in mixed precision: PyTorch's side is `torch.autocast` with
float16 and a `GradScaler`, which begins with the loss scale that odtc's step begins with. Such
folders may lie beside those of float32. PyTorch's products take tensor cores then.
"""
