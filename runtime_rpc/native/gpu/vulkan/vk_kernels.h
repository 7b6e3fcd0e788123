/* Kernels as the driver has compiled them. */
#ifndef ODTC_VK_KERNELS_H
#define ODTC_VK_KERNELS_H

#include "vk_gpu.h"

enum { ODTC_VK_NUMBER = 8 }; /* bytes of a number */

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
