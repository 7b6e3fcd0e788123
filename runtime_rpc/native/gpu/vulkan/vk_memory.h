/* Memory of the device, and memory that the host sees. */
#ifndef ODTC_VK_MEMORY_H
#define ODTC_VK_MEMORY_H

#include "vk_gpu.h"

/* Bytes of a pixel of an image: four numbers. */
enum { ODTC_VK_FLOATS = 16, ODTC_VK_HALVES = 8 };

/* What a buffer is for: tensors, which the host sees as well where that costs kernels nothing, or copies that it
   reads and writes. */
typedef enum { ODTC_VK_TENSOR, ODTC_VK_SHARED } odtc_vk_use;

/* A large piece of memory, from which small buffers are cut: a driver allows some thousand allocations and takes
   long for each. It is used anew when all of them are freed. */
typedef struct {
  odtc_vk_link link;
  VkDeviceMemory memory;
  uint32_t type;
  uint64_t used, buffers;
  uint8_t *host;
} odtc_vk_piece;

struct odtc_gpu_buffer {
  odtc_vk_link link;
  VkBuffer buffer;
  VkBufferView floats, halves; /* of it as an image; NULL until one is needed */
  VkDeviceMemory memory; /* its own; none where it is cut from a piece */
  odtc_vk_piece *piece;
  uint64_t bytes;
  uint8_t *host; /* where the host sees it; NULL where it does not */
  int is_cached; /* the host reads it quickly */
};

odtc_code odtc_vk_make_buffer(odtc_gpu *gpu, odtc_vk_use use, uint64_t bytes, odtc_gpu_buffer **buffer,
                              odtc_problem *problem);
/* A buffer as an image, as far as that may reach. */
odtc_code odtc_vk_find_view(odtc_gpu *gpu, odtc_gpu_buffer *buffer, int are_halves, const VkBufferView **view,
                            odtc_problem *problem);
void odtc_vk_end_buffer(odtc_gpu *gpu, odtc_gpu_buffer *buffer);
/* Frees all buffers, and the pieces. */
void odtc_vk_end_memory(odtc_gpu *gpu);
/* Bytes of the memory that tensors lie in. */
uint64_t odtc_vk_count_memory(const odtc_gpu *gpu);

#endif
