/* The tensors of a trainer as buffers of its device, and the mirror of them in memory. */
#include <stdlib.h>
#include <string.h>

#include "on_gpu.h"

int odtc_is_fed(const odtc_program *p, size_t argument) {
  return p->arguments[argument].role == ODTC_INPUT || p->arguments[argument].role == ODTC_LABEL;
}

/* Whether memory only mirrors it. */
static int is_mirrored(const odtc_program *p, size_t argument) {
  uint32_t role = p->arguments[argument].role;
  return role >= ODTC_PARAMETER && role <= ODTC_AVERAGE;
}

odtc_gpu_buffer *odtc_buffer_of(const struct odtc_on_gpu *gpu, const odtc_program *p, size_t argument, uint32_t set) {
  return set && odtc_is_fed(p, argument) ? gpu->second[argument] : gpu->arguments[argument];
}

odtc_gpu_buffer *odtc_buffer_at(const struct odtc_on_gpu *gpu, const odtc_program *p, const odtc_place *place,
                                uint32_t set, int averages) {
  uint32_t number = place->number;
  switch (place->region) {
    case ODTC_IN_ARGUMENT:
      if (averages && gpu->average_of[number] != ODTC_NONE) number = gpu->average_of[number];
      return odtc_buffer_of(gpu, p, number, set);
    case ODTC_IN_CONSTANT: return gpu->constants;
    case ODTC_IN_ARENA: return gpu->arena;
    default: return gpu->result;
  }
}

/* A buffer of nothing has to have a byte. */
static odtc_code allocate(odtc_trainer *t, uint64_t bytes, odtc_gpu_buffer **buffer) {
  return t->gpu->api->allocate(t->gpu->device, bytes ? bytes : 1, buffer, &t->problem);
}

/* What a call is fed, at the longest length where the step has several. */
static size_t fed_bytes(const odtc_program *p, size_t argument) {
  odtc_program longest = *p;
  longest.arguments = p->every_argument;
  return odtc_part_bytes(&longest, argument);
}

odtc_code odtc_send_argument(odtc_trainer *t, size_t n) {
  struct odtc_on_gpu *gpu = t->gpu;
  if (!gpu || !is_mirrored(&t->program, n)) return ODTC_OK;
  return gpu->api->write(gpu->device, gpu->arguments[n], 0, t->arguments[n].data, t->arguments[n].bytes, &t->problem);
}

odtc_code odtc_fetch_argument(odtc_trainer *t, size_t n) {
  struct odtc_on_gpu *gpu = t->gpu;
  if (!gpu || !is_mirrored(&t->program, n)) return ODTC_OK;
  return gpu->api->read(gpu->device, gpu->arguments[n], 0, t->arguments[n].data, t->arguments[n].bytes, &t->problem);
}

void odtc_leave_argument(odtc_trainer *t, size_t n) {
  if (t->gpu && is_mirrored(&t->program, n)) odtc_leave_pages(t->arguments[n].data, t->arguments[n].bytes);
}

/* Of a state that starts at zero no page of memory is touched. */
static odtc_code start_argument(odtc_trainer *t, size_t n) {
  const odtc_argument *a = t->program.arguments + n;
  struct odtc_on_gpu *gpu = t->gpu;
  if (a->role == ODTC_STATE && a->initial == 0)
    return gpu->api->fill(gpu->device, gpu->arguments[n], 0, a->bytes, 0, &t->problem);
  odtc_code code = odtc_send_argument(t, n);
  odtc_leave_argument(t, n);
  return code;
}

static uint64_t largest_result(const odtc_program *p) {
  uint64_t most = 0;
  for (size_t n = 0; n < p->every_function_count; ++n)
    if (p->every_function[n].result_bytes > most) most = p->every_function[n].result_bytes;
  return most;
}

odtc_code odtc_fill_gpu(odtc_trainer *t) {
  const odtc_program *p = &t->program;
  struct odtc_on_gpu *gpu = t->gpu;
  if (!(gpu->arguments = calloc(p->argument_count + 1, sizeof *gpu->arguments)))
    return odtc_fail(&t->problem, ODTC_NO_MEMORY, "there is no memory for %zu arguments", p->argument_count);
  for (size_t n = 0; n < p->argument_count; ++n) {
    size_t bytes = odtc_is_fed(p, n) ? fed_bytes(p, n) : p->arguments[n].bytes;
    if (allocate(t, bytes, gpu->arguments + n) || start_argument(t, n)) return t->problem.code;
  }
  if (allocate(t, p->constant_bytes, &gpu->constants) || allocate(t, largest_result(p), &gpu->result))
    return t->problem.code;
  if (gpu->api->write(gpu->device, gpu->constants, 0, p->constants, p->constant_bytes, &t->problem))
    return t->problem.code;
  /* A checkpoint that is loaded next is written beside what is queued, which must not fill its state afterwards. */
  return gpu->api->wait(gpu->device, NULL, &t->problem);
}

int odtc_need_second_set(odtc_trainer *t) {
  const odtc_program *p = &t->program;
  struct odtc_on_gpu *gpu = t->gpu;
  odtc_problem nobody = {0};
  if (gpu->second) return 1;
  odtc_gpu_buffer **second = gpu->is_alone ? NULL : calloc(p->argument_count + 1, sizeof *second);
  gpu->is_alone = !second;
  for (size_t n = 0; n < p->argument_count && !gpu->is_alone; ++n)
    if (odtc_is_fed(p, n))
      gpu->is_alone =
          gpu->api->allocate(gpu->device, fed_bytes(p, n) ? fed_bytes(p, n) : 1, second + n, &nobody) != ODTC_OK;
  if (!gpu->is_alone) {
    gpu->second = second;
    return 1;
  }
  for (size_t n = 0; second && n < p->argument_count; ++n) gpu->api->free_buffer(gpu->device, second[n]);
  free(second);
  return 0;
}

odtc_code odtc_set_arena_on_gpu(odtc_trainer *t, size_t bytes) {
  struct odtc_on_gpu *gpu = t->gpu;
  if (bytes == t->arena.bytes) return ODTC_OK;
  odtc_free_lists(t);
  /* Nothing lies in it between two calls: two of them need not be there at once. */
  gpu->api->free_buffer(gpu->device, gpu->arena);
  gpu->arena = NULL;
  t->arena.bytes = 0;
  if (bytes && allocate(t, bytes, &gpu->arena)) return t->problem.code;
  t->arena.bytes = bytes;
  return ODTC_OK;
}
