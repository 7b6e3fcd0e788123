/* A list of launches: descriptors and numbers that stay, and one command buffer. */
#ifndef ODTC_VK_LIST_H
#define ODTC_VK_LIST_H

#include "vk_memory.h"

typedef struct {
  const odtc_vk_kernel *kernel;
  VkPipeline pipeline;
  VkDescriptorSet set;
  const uint64_t *numbers; /* that are pushed; NULL where there are none, or they lie in a buffer */
  uint32_t groups[3];
  int waits; /* for launches before it */
} odtc_vk_launch;

struct odtc_gpu_list {
  odtc_vk_link link;
  odtc_vk_launch *launches;
  size_t count;
  uint64_t *numbers; /* of all launches */
  VkDescriptorPool sets;
  odtc_gpu_buffer *uniform; /* numbers that are not pushed; NULL where there are none */
  VkCommandBuffer commands;
  VkQueryPool times;
  int is_recorded, is_timed; /* the latter as it was recorded */
  uint64_t number;           /* of the batch of its last run */
};

odtc_code odtc_vk_prepare(odtc_gpu *gpu, const odtc_gpu_launch *launches, size_t count, odtc_gpu_list **list,
                          odtc_problem *problem);
void odtc_vk_free_list(odtc_gpu *gpu, odtc_gpu_list *list);
/* Records the command buffer, with timers where launches are timed. */
odtc_code odtc_vk_record(odtc_gpu *gpu, odtc_gpu_list *list, odtc_problem *problem);
/* The times of the last run, which is over. Of launches that run at once each begins where the one before has ended: no
   time is counted twice. */
odtc_code odtc_vk_times(odtc_gpu *gpu, const odtc_gpu_list *list, odtc_gpu_times *times, odtc_problem *problem);

#endif
