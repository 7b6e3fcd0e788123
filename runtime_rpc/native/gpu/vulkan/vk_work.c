#include "vk_batch.h"

#include <stdlib.h>
#include <string.h>


enum { STAGES = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT };

static odtc_vk_batch *current(odtc_vk_work *w) { return w->batches + w->number % ODTC_VK_BATCHES; }

odtc_code odtc_vk_make_work(odtc_gpu *gpu, odtc_problem *problem) {
  odtc_vk_work *w = gpu->work = calloc(1, sizeof *w);
  if (!w) return odtc_fail(problem, ODTC_NO_MEMORY, "there is no memory for a queue");
  const VkCommandBufferAllocateInfo commands = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                                .commandPool = gpu->compute.commands,
                                                .commandBufferCount = ODTC_VK_PARTS};
  const VkFenceCreateInfo fence = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
  for (odtc_vk_batch *b = w->batches; b != w->batches + ODTC_VK_BATCHES; ++b) {
    if (odtc_vk_check(gpu, gpu->vk.AllocateCommandBuffers(gpu->device, &commands, b->own),
                      "command buffers", problem) ||
        odtc_vk_check(gpu, gpu->vk.CreateFence(gpu->device, &fence, NULL, &b->done), "a fence", problem))
      return problem->code;
  }
  const uint64_t bytes = ODTC_VK_BATCHES * ODTC_VK_TAKES * ODTC_VK_TAKEN;
  return odtc_vk_make_buffer(gpu, ODTC_VK_SHARED, bytes, &w->shared, problem);
}

void odtc_vk_end_work(odtc_gpu *gpu) {
  odtc_vk_work *w = gpu->work;
  if (!w) return;
  for (int n = 0; n < ODTC_VK_BATCHES; ++n) gpu->vk.DestroyFence(gpu->device, w->batches[n].done, NULL);
  odtc_vk_end_hazards(&w->hazards);
  free(w);
  gpu->work = NULL;
}

void odtc_vk_barrier(odtc_gpu *gpu, VkCommandBuffer commands) {
  const VkMemoryBarrier all = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                               .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT,
                               .dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT |
                                                VK_ACCESS_UNIFORM_READ_BIT | VK_ACCESS_TRANSFER_READ_BIT |
                                                VK_ACCESS_TRANSFER_WRITE_BIT};
  gpu->vk.CmdPipelineBarrier(commands, STAGES, STAGES, 0, 1, &all, 0, NULL, 0, NULL);
}

/* Waits for a batch that runs, and hands out what it has taken. The mutex is held but for the wait: this thread alone
   ends batches. */
static odtc_code retire(odtc_gpu *gpu, odtc_vk_batch *b, odtc_problem *problem) {
  pthread_mutex_unlock(&gpu->mutex);
  VkResult done = gpu->vk.WaitForFences(gpu->device, 1, &b->done, 1, UINT64_MAX);
  pthread_mutex_lock(&gpu->mutex);
  b->is_running = 0;
  if (odtc_vk_check(gpu, done, "waiting for the device", problem)) return problem->code = ODTC_DEVICE;
  uint64_t slot = (uint64_t)(b - gpu->work->batches) * ODTC_VK_TAKES;
  for (uint32_t n = 0; n < b->take_count; ++n)
    memcpy(b->takes[n].to, gpu->work->shared->host + (slot + n) * ODTC_VK_TAKEN, b->takes[n].bytes);
  return odtc_vk_check(gpu, gpu->vk.ResetFences(gpu->device, 1, &b->done), "a fence", problem);
}

/* The batch that is filled, whose last run is over. */
static odtc_code open_batch(odtc_gpu *gpu, odtc_vk_batch **opened, odtc_problem *problem) {
  odtc_vk_batch *b = *opened = current(gpu->work);
  if (odtc_vk_check_there(gpu, problem)) return problem->code;
  if (b->number == gpu->work->number && !b->is_running) return ODTC_OK;
  if (b->is_running && retire(gpu, b, problem)) return problem->code;
  b->own_count = b->part_count = b->list_count = b->take_count = 0;
  b->number = gpu->work->number;
  return ODTC_OK;
}

static odtc_code end_part(odtc_gpu *gpu, odtc_vk_batch *b, odtc_problem *problem) {
  if (!b->is_recording) return ODTC_OK;
  b->is_recording = 0;
  VkCommandBuffer part = b->parts[b->part_count - 1];
  if (b->take_count) { /* the host may read what was taken */
    const VkMemoryBarrier seen = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                                  .srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT,
                                  .dstAccessMask = VK_ACCESS_HOST_READ_BIT};
    gpu->vk.CmdPipelineBarrier(part, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &seen, 0,
                               NULL, 0, NULL);
  }
  return odtc_vk_check(gpu, gpu->vk.EndCommandBuffer(part), "commands", problem);
}

odtc_code odtc_vk_submit_batch(odtc_gpu *gpu, odtc_problem *problem) {
  odtc_vk_work *w = gpu->work;
  odtc_vk_batch *b = current(w);
  if (b->number != w->number || b->is_running || !b->part_count) return ODTC_OK;
  if (odtc_vk_check_there(gpu, problem) || end_part(gpu, b, problem)) return problem->code;
  const VkSubmitInfo info = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                             .commandBufferCount = b->part_count,
                             .pCommandBuffers = b->parts};
  VkResult done = gpu->vk.QueueSubmit(gpu->compute.queue, 1, &info, b->done);
  if (odtc_vk_check(gpu, done, "a step", problem)) return problem->code = ODTC_DEVICE; /* too late for another plan */
  b->is_running = 1;
  ++w->number;
  return ODTC_OK;
}

odtc_code odtc_vk_submit(odtc_gpu *gpu, odtc_problem *problem) {
  pthread_mutex_lock(&gpu->mutex);
  odtc_code code = odtc_vk_submit_batch(gpu, problem);
  pthread_mutex_unlock(&gpu->mutex);
  return code;
}

odtc_code odtc_vk_begin_part(odtc_gpu *gpu, odtc_vk_batch **found, odtc_problem *problem) {
  const VkCommandBufferBeginInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                         .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};
  if (open_batch(gpu, found, problem)) return problem->code;
  if ((*found)->is_recording) return ODTC_OK;
  if ((*found)->part_count == ODTC_VK_PARTS && (odtc_vk_submit_batch(gpu, problem) || open_batch(gpu, found, problem)))
    return problem->code;
  odtc_vk_batch *b = *found;
  VkCommandBuffer part = b->own[b->own_count];
  if (odtc_vk_check(gpu, gpu->vk.BeginCommandBuffer(part, &info), "commands", problem)) return problem->code;
  odtc_vk_barrier(gpu, part);
  gpu->work->hazards.count = 0;
  ++b->own_count;
  b->parts[b->part_count++] = part;
  b->is_recording = 1;
  return ODTC_OK;
}

static odtc_code queue(odtc_gpu *gpu, VkCommandBuffer commands, uint64_t *number, odtc_problem *problem) {
  odtc_vk_batch *b;
  if (open_batch(gpu, &b, problem) || end_part(gpu, b, problem)) return problem->code;
  int is_full = b->list_count || b->part_count == ODTC_VK_PARTS; /* what is queued may run meanwhile */
  if (is_full && (odtc_vk_submit_batch(gpu, problem) || open_batch(gpu, &b, problem))) return problem->code;
  b->parts[b->part_count++] = commands;
  ++b->list_count;
  *number = b->number;
  return ODTC_OK;
}

static odtc_code wait_for(odtc_gpu *gpu, uint64_t number, odtc_problem *problem) {
  odtc_vk_work *w = gpu->work;
  if (number >= w->number && odtc_vk_submit_batch(gpu, problem)) return problem->code;
  uint64_t first = w->number < ODTC_VK_BATCHES ? 0 : w->number - ODTC_VK_BATCHES;
  for (uint64_t n = first; n < w->number && n <= number; ++n) {
    odtc_vk_batch *b = w->batches + n % ODTC_VK_BATCHES;
    if (b->is_running && b->number == n && retire(gpu, b, problem)) return problem->code;
  }
  return odtc_vk_check_there(gpu, problem);
}

odtc_code odtc_vk_queue(odtc_gpu *gpu, VkCommandBuffer commands, uint64_t *number, odtc_problem *problem) {
  ALONE(queue(gpu, commands, number, problem))
}

odtc_code odtc_vk_wait(odtc_gpu *gpu, const uint64_t *number, odtc_problem *problem) {
  ALONE(wait_for(gpu, number ? *number : UINT64_MAX, problem))
}
