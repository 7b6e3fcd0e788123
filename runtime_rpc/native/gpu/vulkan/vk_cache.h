/* What a driver has compiled, kept in a file for the next time. */
#ifndef ODTC_VK_CACHE_H
#define ODTC_VK_CACHE_H

#include "vk_gpu.h"

/* Of kernels, device and driver; a path without a folder is none, and nothing is kept. */
typedef struct {
  char path[4096];
  VkPipelineCache cache;
  size_t bytes; /* that the file had; 0 where it cannot be used */
} odtc_vk_cache;

odtc_code odtc_vk_open_cache(odtc_gpu *gpu, const char *folder, const odtc_gpu_kernel *kernels, size_t count,
                             odtc_vk_cache *cache, odtc_problem *problem);
/* Writes the file anew where it was none, or one that cannot be used; no room for it is no error. */
void odtc_vk_close_cache(odtc_gpu *gpu, odtc_vk_cache *cache);

#endif
