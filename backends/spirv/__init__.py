"""SPIR-V for Vulkan: the assembler of GPU kernels that TVM's wheel does not have."""
