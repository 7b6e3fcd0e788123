/* Small commands between lists. */
#include "vk_batch.h"

/* Begins a small command, which waits for those that it depends on. */
static odtc_code begin_command(odtc_gpu *gpu, const odtc_vk_access *accesses, size_t count, odtc_vk_batch **found,
                               odtc_problem *problem) {
  if (odtc_vk_begin_part(gpu, found, problem)) return problem->code;
  int waits = odtc_vk_next(&gpu->work->hazards, accesses, count);
  if (waits < 0) return odtc_fail(problem, ODTC_NO_MEMORY, "there is no memory for a command");
  if (waits) odtc_vk_barrier(gpu, (*found)->parts[(*found)->part_count - 1]);
  return ODTC_OK;
}

static odtc_vk_access access_to(const odtc_gpu_buffer *buffer, uint64_t offset, uint64_t bytes, int is_written) {
  return (odtc_vk_access){buffer, offset, offset + bytes, is_written};
}

static VkCommandBuffer part_of(const odtc_vk_batch *b) { return b->parts[b->part_count - 1]; }

/* A slot of the shared memory, in the batch of the command that is next. */
static odtc_code find_slot(odtc_gpu *gpu, odtc_vk_batch **found, uint64_t *slot, odtc_problem *problem) {
  if (odtc_vk_begin_part(gpu, found, problem)) return problem->code;
  int is_full = (*found)->take_count == ODTC_VK_TAKES;
  if (is_full && (odtc_vk_submit_batch(gpu, problem) || odtc_vk_begin_part(gpu, found, problem)))
    return problem->code;
  *slot = ((uint64_t)(*found - gpu->work->batches) * ODTC_VK_TAKES + (*found)->take_count) * ODTC_VK_TAKEN;
  return ODTC_OK;
}

static odtc_code copy(odtc_gpu *gpu, odtc_gpu_buffer *to, uint64_t offset, odtc_gpu_buffer *from,
                      uint64_t from_offset, uint64_t bytes, odtc_problem *problem) {
  const odtc_vk_access accesses[] = {access_to(from, from_offset, bytes, 0), access_to(to, offset, bytes, 1)};
  const VkBufferCopy region = {from_offset, offset, bytes};
  odtc_vk_batch *b;
  if (!bytes) return ODTC_OK;
  if (begin_command(gpu, accesses, 2, &b, problem)) return problem->code;
  gpu->vk.CmdCopyBuffer(part_of(b), from->buffer, to->buffer, 1, &region);
  return ODTC_OK;
}

static odtc_code fill_words(odtc_gpu *gpu, odtc_gpu_buffer *to, uint64_t offset, uint64_t bytes,
                            uint32_t pattern, odtc_problem *problem) {
  const odtc_vk_access access = access_to(to, offset, bytes, 1);
  odtc_vk_batch *b;
  if (!bytes) return ODTC_OK;
  if (begin_command(gpu, &access, 1, &b, problem)) return problem->code;
  gpu->vk.CmdFillBuffer(part_of(b), to->buffer, offset, bytes, pattern);
  return ODTC_OK;
}

/* Fills as many words as there are; bytes behind the last one are copied from another. */
static odtc_code fill(odtc_gpu *gpu, odtc_gpu_buffer *to, uint64_t offset, uint64_t bytes, uint32_t pattern,
                      odtc_problem *problem) {
  uint64_t rest = bytes % sizeof pattern, words = bytes - rest, slot = 0;
  odtc_vk_batch *b;
  if (fill_words(gpu, to, offset, words, pattern, problem)) return problem->code;
  if (!rest) return ODTC_OK;
  if (find_slot(gpu, &b, &slot, problem)) return problem->code;
  odtc_gpu_buffer *shared = gpu->work->shared;
  return fill_words(gpu, shared, slot, sizeof pattern, pattern, problem)
             ? problem->code
             : copy(gpu, to, offset + words, shared, slot, rest, problem);
}

static odtc_code put(odtc_gpu *gpu, odtc_gpu_buffer *to, uint64_t offset, const void *from, uint32_t bytes,
                     odtc_problem *problem) {
  const odtc_vk_access access = access_to(to, offset, bytes, 1);
  odtc_vk_batch *b;
  if (begin_command(gpu, &access, 1, &b, problem)) return problem->code;
  gpu->vk.CmdUpdateBuffer(part_of(b), to->buffer, offset, bytes, from);
  return ODTC_OK;
}

static odtc_code take(odtc_gpu *gpu, odtc_gpu_buffer *from, uint64_t offset, void *to, uint32_t bytes,
                      odtc_problem *problem) {
  uint64_t slot = 0;
  odtc_vk_batch *b;
  if (find_slot(gpu, &b, &slot, problem)) return problem->code;
  if (copy(gpu, gpu->work->shared, slot, from, offset, bytes, problem)) return problem->code;
  b->takes[b->take_count++] = (odtc_vk_taken){to, bytes};
  return ODTC_OK;
}

odtc_code odtc_vk_fill(odtc_gpu *gpu, odtc_gpu_buffer *to, uint64_t offset, uint64_t bytes, uint32_t pattern,
                       odtc_problem *problem) {
  ALONE(fill(gpu, to, offset, bytes, pattern, problem))
}

odtc_code odtc_vk_put(odtc_gpu *gpu, odtc_gpu_buffer *to, uint64_t offset, const void *from, uint32_t bytes,
                      odtc_problem *problem) {
  ALONE(put(gpu, to, offset, from, bytes, problem))
}

odtc_code odtc_vk_take(odtc_gpu *gpu, odtc_gpu_buffer *from, uint64_t offset, void *to, uint32_t bytes,
                       odtc_problem *problem) {
  ALONE(take(gpu, from, offset, to, bytes, problem))
}

odtc_code odtc_vk_copy(odtc_gpu *gpu, odtc_gpu_buffer *to, uint64_t offset, odtc_gpu_buffer *from,
                       uint64_t from_offset, uint64_t bytes, odtc_problem *problem) {
  ALONE(copy(gpu, to, offset, from, from_offset, bytes, problem))
}
