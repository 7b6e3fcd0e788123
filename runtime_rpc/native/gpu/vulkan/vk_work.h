/* What is queued: lists, and small commands between them, in order.

   Commands wait in a batch until somebody waits for them, writes, or queues a second list: so a step, with what is put
   before it and taken after it, is one submit. */
#ifndef ODTC_VK_WORK_H
#define ODTC_VK_WORK_H

#include "vk_gpu.h"

odtc_code odtc_vk_make_work(odtc_gpu *gpu, odtc_problem *problem);
void odtc_vk_end_work(odtc_gpu *gpu);

/* Small commands, see gpu.h. */
odtc_code odtc_vk_fill(odtc_gpu *gpu, odtc_gpu_buffer *to, uint64_t offset, uint64_t bytes, uint32_t pattern,
                       odtc_problem *problem);
odtc_code odtc_vk_put(odtc_gpu *gpu, odtc_gpu_buffer *to, uint64_t offset, const void *from, uint32_t bytes,
                      odtc_problem *problem);
odtc_code odtc_vk_take(odtc_gpu *gpu, odtc_gpu_buffer *from, uint64_t offset, void *to, uint32_t bytes,
                       odtc_problem *problem);
odtc_code odtc_vk_copy(odtc_gpu *gpu, odtc_gpu_buffer *to, uint64_t offset, odtc_gpu_buffer *from,
                       uint64_t from_offset, uint64_t bytes, odtc_problem *problem);

/* Queues a list's commands; `number` is that of the batch that they are in, for `odtc_vk_wait`. */
odtc_code odtc_vk_queue(odtc_gpu *gpu, VkCommandBuffer commands, uint64_t *number, odtc_problem *problem);
/* Lets the device have all that is queued; another thread may call this. */
odtc_code odtc_vk_submit(odtc_gpu *gpu, odtc_problem *problem);
/* Waits for a batch, and those before it; with NULL for all that is queued. */
odtc_code odtc_vk_wait(odtc_gpu *gpu, const uint64_t *number, odtc_problem *problem);

/* A barrier between commands that use memory in any way. */
void odtc_vk_barrier(odtc_gpu *gpu, VkCommandBuffer commands);

#endif
