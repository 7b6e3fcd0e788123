/* Where the host sees a buffer, it copies by itself. Else a copy goes by two halves of a staging buffer: while the
   device copies one, the host copies the other. */
#include "vk_copy.h"

#include <stdlib.h>
#include <string.h>

#include "vk_work.h"

enum { HALF = 4 << 20, FEW = 4096 }; /* bytes; few may be read from memory that is not cached */

typedef struct {
  uint8_t *host;
  VkCommandBuffer commands;
  VkFence done;
  uint64_t offset, bytes; /* what is copied; no bytes where nothing is */
} half;

struct odtc_vk_staging {
  odtc_gpu_buffer *buffer;
  half halves[2];
  pthread_mutex_t mutex; /* one copy at a time */
};

odtc_code odtc_vk_make_staging(odtc_gpu *gpu, odtc_problem *problem) {
  odtc_vk_staging *s = calloc(1, sizeof *s);
  if (!s || pthread_mutex_init(&s->mutex, NULL)) {
    free(s);
    return odtc_fail(problem, ODTC_NO_MEMORY, "there is no memory for copies");
  }
  gpu->staging = s;
  const VkCommandBufferAllocateInfo commands = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                                .commandPool = gpu->transfer.commands,
                                                .commandBufferCount = 1};
  const VkFenceCreateInfo fence = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
  for (int n = 0; n < 2; ++n) {
    half *h = s->halves + n;
    if (odtc_vk_check(gpu, gpu->vk.AllocateCommandBuffers(gpu->device, &commands, &h->commands),
                      "a command buffer", problem) ||
        odtc_vk_check(gpu, gpu->vk.CreateFence(gpu->device, &fence, NULL, &h->done), "a fence", problem))
      return problem->code;
  }
  return ODTC_OK;
}

void odtc_vk_end_staging(odtc_gpu *gpu) {
  odtc_vk_staging *s = gpu->staging;
  if (!s) return;
  for (int n = 0; n < 2; ++n) gpu->vk.DestroyFence(gpu->device, s->halves[n].done, NULL);
  pthread_mutex_destroy(&s->mutex);
  free(s);
  gpu->staging = NULL;
}

odtc_code odtc_vk_need_staging(odtc_gpu *gpu, odtc_problem *problem) {
  odtc_vk_staging *s = gpu->staging;
  if (s->buffer) return ODTC_OK;
  if (odtc_vk_make_buffer(gpu, ODTC_VK_SHARED, 2 * HALF, &s->buffer, problem)) return problem->code;
  s->halves[0].host = s->buffer->host;
  s->halves[1].host = s->buffer->host + HALF;
  return ODTC_OK;
}

/* Lets the device copy between a half and a buffer. The host has written before, and reads afterwards. */
static odtc_code begin(odtc_gpu *gpu, half *h, VkBuffer from, VkBuffer to, const VkBufferCopy *region,
                       odtc_problem *problem) {
  const VkCommandBufferBeginInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                         .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};
  const VkMemoryBarrier seen = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                                .srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT,
                                .dstAccessMask = VK_ACCESS_HOST_READ_BIT};
  const VkSubmitInfo submit = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                               .commandBufferCount = 1,
                               .pCommandBuffers = &h->commands};
  VkResult done = gpu->vk.BeginCommandBuffer(h->commands, &info);
  if (odtc_vk_check(gpu, done, "a copy", problem)) return problem->code;
  gpu->vk.CmdCopyBuffer(h->commands, from, to, 1, region);
  gpu->vk.CmdPipelineBarrier(h->commands, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_HOST_BIT, 0, 1,
                             &seen, 0, NULL, 0, NULL);
  if (odtc_vk_check(gpu, gpu->vk.EndCommandBuffer(h->commands), "a copy", problem)) return problem->code;
  pthread_mutex_lock(&gpu->mutex); /* the queue may be that of the lists */
  done = gpu->vk.QueueSubmit(gpu->transfer.queue, 1, &submit, h->done);
  odtc_code code = odtc_vk_check(gpu, done, "a copy", problem);
  pthread_mutex_unlock(&gpu->mutex);
  return code;
}

static odtc_code end(odtc_gpu *gpu, half *h, odtc_problem *problem) {
  if (!h->bytes) return ODTC_OK;
  h->bytes = 0;
  VkResult done = gpu->vk.WaitForFences(gpu->device, 1, &h->done, 1, UINT64_MAX);
  if (odtc_vk_check(gpu, done, "a copy", problem)) return problem->code;
  return odtc_vk_check(gpu, gpu->vk.ResetFences(gpu->device, 1, &h->done), "a copy", problem);
}

static odtc_code write_pieces(odtc_gpu *gpu, odtc_gpu_buffer *to, uint64_t offset, const uint8_t *from,
                              uint64_t bytes, odtc_problem *problem) {
  odtc_vk_staging *s = gpu->staging;
  for (int n = 0; bytes; n = !n) {
    half *h = s->halves + n;
    if (end(gpu, h, problem)) return problem->code;
    uint64_t part = bytes < HALF ? bytes : HALF;
    memcpy(h->host, from, part);
    const VkBufferCopy region = {(uint64_t)n * HALF, offset, part};
    if (begin(gpu, h, s->buffer->buffer, to->buffer, &region, problem)) return problem->code;
    h->bytes = part;
    from += part, offset += part, bytes -= part;
  }
  return end(gpu, s->halves, problem) ? problem->code : end(gpu, s->halves + 1, problem);
}

/* Ends the copy to a half, and takes what it has brought. */
static odtc_code take(odtc_gpu *gpu, half *h, uint8_t *to, odtc_problem *problem) {
  uint64_t bytes = h->bytes;
  if (end(gpu, h, problem)) return problem->code;
  if (bytes) memcpy(to + h->offset, h->host, bytes);
  return ODTC_OK;
}

static odtc_code read_pieces(odtc_gpu *gpu, odtc_gpu_buffer *from, uint64_t offset, uint8_t *to,
                             uint64_t bytes, odtc_problem *problem) {
  odtc_vk_staging *s = gpu->staging;
  int n = 0;
  for (uint64_t done = 0, part; done < bytes; done += part, n = !n) {
    half *h = s->halves + n;
    if (take(gpu, h, to, problem)) return problem->code;
    part = bytes - done < HALF ? bytes - done : HALF;
    const VkBufferCopy region = {offset + done, (uint64_t)n * HALF, part};
    if (begin(gpu, h, from->buffer, s->buffer->buffer, &region, problem)) return problem->code;
    h->bytes = part;
    h->offset = done;
  }
  return take(gpu, s->halves + n, to, problem) ? problem->code : take(gpu, s->halves + !n, to, problem);
}

/* Vulkan trusts who copies, and buffers are rounded up: without it some bytes too many would lie in no buffer, or in the
   next one. */
static odtc_code check_within(const odtc_gpu_buffer *buffer, uint64_t offset, uint64_t bytes, odtc_problem *problem) {
  if (bytes <= buffer->bytes && offset <= buffer->bytes - bytes) return ODTC_OK;
  return odtc_fail(problem, ODTC_DEVICE, "a copy of %llu bytes at %llu of a buffer of %llu", (unsigned long long)bytes,
                   (unsigned long long)offset, (unsigned long long)buffer->bytes);
}

odtc_code odtc_vk_write(odtc_gpu *gpu, odtc_gpu_buffer *to, uint64_t offset, const void *from, uint64_t bytes,
                        odtc_problem *problem) {
  if (check_within(to, offset, bytes, problem)) return problem->code;
  if (odtc_vk_submit(gpu, problem)) return problem->code; /* the device works meanwhile */
  if (to->host) {
    memcpy(to->host + offset, from, bytes);
    return ODTC_OK;
  }
  pthread_mutex_lock(&gpu->staging->mutex);
  odtc_code code = write_pieces(gpu, to, offset, from, bytes, problem);
  pthread_mutex_unlock(&gpu->staging->mutex);
  return code;
}

odtc_code odtc_vk_read(odtc_gpu *gpu, odtc_gpu_buffer *from, uint64_t offset, void *to, uint64_t bytes,
                       odtc_problem *problem) {
  if (check_within(from, offset, bytes, problem)) return problem->code;
  if (odtc_vk_wait(gpu, NULL, problem)) return problem->code;
  if (from->host && (from->is_cached || bytes <= FEW)) {
    memcpy(to, from->host + offset, bytes);
    return ODTC_OK;
  }
  pthread_mutex_lock(&gpu->staging->mutex);
  /* Where the host sees all buffers, none has needed it so far. */
  odtc_code code = odtc_vk_need_staging(gpu, problem);
  if (!code) code = read_pieces(gpu, from, offset, to, bytes, problem);
  pthread_mutex_unlock(&gpu->staging->mutex);
  return code;
}
