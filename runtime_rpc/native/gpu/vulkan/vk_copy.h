/* Copies between the host and the device, which wait until they are done. */
#ifndef ODTC_VK_COPY_H
#define ODTC_VK_COPY_H

#include "vk_memory.h"

odtc_code odtc_vk_make_staging(odtc_gpu *gpu, odtc_problem *problem);
/* The memory by which copies go; called once there is a buffer that the host does not see. */
odtc_code odtc_vk_need_staging(odtc_gpu *gpu, odtc_problem *problem);
void odtc_vk_end_staging(odtc_gpu *gpu);

odtc_code odtc_vk_write(odtc_gpu *gpu, odtc_gpu_buffer *to, uint64_t offset, const void *from, uint64_t bytes,
                        odtc_problem *problem);
odtc_code odtc_vk_read(odtc_gpu *gpu, odtc_gpu_buffer *from, uint64_t offset, void *to, uint64_t bytes,
                       odtc_problem *problem);

#endif
