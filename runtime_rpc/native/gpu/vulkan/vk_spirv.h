/* What a kernel's SPIR-V says of itself. */
#ifndef ODTC_VK_SPIRV_H
#define ODTC_VK_SPIRV_H

#include "vk_gpu.h"

typedef struct {
  uint32_t items[3];  /* of a work-group */
  uint64_t read_only; /* a bit for each of the first 64 buffers that it does not write */
  uint64_t offered, halves; /* likewise, of those that it can read as images, and of those of them that are float16 */
  uint64_t shared_bytes; /* of the variables of a work-group; UINT64_MAX where there is no end of them */
} odtc_vk_shader;

/* Whether a kernel's numbers lie in a buffer. */
static inline int odtc_vk_is_uniform(const odtc_gpu_kernel *kernel) {
  return kernel->flags & ODTC_GPU_UNIFORM && kernel->numbers;
}

/* Reads it, and checks that the device has what it asks for. A driver trusts the rest: it is the library's. */
odtc_code odtc_vk_read_shader(const odtc_gpu *gpu, const odtc_gpu_kernel *kernel, odtc_vk_shader *shader,
                              odtc_problem *problem);

#endif
