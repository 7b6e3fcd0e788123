/* Batches: command buffers that are submitted at once. Whoever calls these functions holds the mutex. */
#ifndef ODTC_VK_BATCH_H
#define ODTC_VK_BATCH_H

#include "vk_hazards.h"
#include "vk_memory.h"
#include "vk_work.h"

enum {
  ODTC_VK_BATCHES = 4,
  ODTC_VK_PARTS = 8,  /* command buffers of a batch */
  ODTC_VK_TAKES = 32, /* and what it takes, at most */
  ODTC_VK_TAKEN = 64, /* bytes of each */
};

/* What is taken: it lies in a slot of the shared memory until its batch is done. */
typedef struct {
  void *to;
  uint32_t bytes;
} odtc_vk_taken;

typedef struct {
  VkFence done;
  VkCommandBuffer own[ODTC_VK_PARTS], parts[ODTC_VK_PARTS]; /* for small commands; and these and lists', in order */
  uint32_t own_count, part_count, list_count, take_count;
  odtc_vk_taken takes[ODTC_VK_TAKES];
  int is_recording; /* the last part, with small commands */
  int is_running;
  uint64_t number;
} odtc_vk_batch;

struct odtc_vk_work {
  odtc_vk_batch batches[ODTC_VK_BATCHES];
  uint64_t number; /* of the batch that is filled; number % ODTC_VK_BATCHES is its place */
  odtc_gpu_buffer *shared;
  odtc_vk_hazards hazards; /* of the part that is recorded */
};

/* The part that small commands go to, with room for one: the last one of the batch that is filled, or a new one. */
odtc_code odtc_vk_begin_part(odtc_gpu *gpu, odtc_vk_batch **found, odtc_problem *problem);
/* Submits the batch that is filled, if it has anything. The next one is opened by who fills it. */
odtc_code odtc_vk_submit_batch(odtc_gpu *gpu, odtc_problem *problem);

/* The body of a function that holds the mutex while it calls another. */
#define ALONE(call)                     \
  pthread_mutex_lock(&gpu->mutex);      \
  odtc_code code = call;                \
  pthread_mutex_unlock(&gpu->mutex);    \
  return code;

#endif
