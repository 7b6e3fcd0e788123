"""How much tuning would find on a GPU: choices of products against those of the model.

`odtc tune` measures on a device that it reaches. Where a GPU is rented that may be none: kernels
are compiled on a machine with TVM, and timed on one with the GPU.

    python -m benchmarks.gpu.tuning.prepare kernels --networks mobilenet_v2,vit_tiny
    python -m benchmarks.gpu.tuning.run kernels
"""
