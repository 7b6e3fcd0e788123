/* Kernels as the driver has compiled them. */
#ifndef ODTC_VK_KERNELS_H
#define ODTC_VK_KERNELS_H

#include "vk_gpu.h"

enum { ODTC_VK_NUMBER = 8 }; /* bytes of a number */

/* The bindings of a kernel: buffers, numbers where they lie in one, and images in the order of the buffers. */
static inline uint32_t odtc_vk_image_binding(const odtc_vk_kernel *k, uint32_t buffer) {
  return k->buffers + (uint32_t)k->is_uniform + buffer;
}
static inline uint32_t odtc_vk_count(uint64_t bits) {
  uint32_t count = 0;
  for (; bits; bits &= bits - 1) ++count;
  return count;
}

odtc_code odtc_vk_load(odtc_gpu *gpu, const odtc_gpu_kernel *kernels, size_t count, odtc_problem *problem);
void odtc_vk_unload(odtc_gpu *gpu);
/* The pipeline for launches that are split into parts, which begin at other groups than the first. */
odtc_code odtc_vk_need_split(odtc_gpu *gpu, odtc_vk_kernel *kernel, odtc_problem *problem);
/* A pipeline of the kernel's shader. */
odtc_code odtc_vk_make_pipeline(odtc_gpu *gpu, const odtc_vk_kernel *kernel, VkPipelineCache cache, VkFlags flags,
                                VkPipeline *pipeline, odtc_problem *problem);
odtc_code odtc_vk_make_shader(odtc_gpu *gpu, const odtc_gpu_kernel *from, odtc_vk_kernel *kernel,
                              odtc_problem *problem);

/* What the SPIR-V says of a kernel, and the driver, where it has statistics. */
odtc_code odtc_vk_describe(odtc_gpu *gpu, uint32_t kernel, const odtc_gpu_kernel *from, odtc_gpu_figures *figures,
                           odtc_problem *problem);

#endif
