/* Launches with the buffers that they are given: a list for each function, set of inputs, and whether it reads averages. */
#include <stdlib.h>

#include "on_gpu.h"

static odtc_gpu_list **list_at(const odtc_trainer *t, const odtc_function *function, uint32_t set, int averages) {
  size_t number = (size_t)(function - t->program.every_function);
  return t->gpu->lists + (number * ODTC_SETS + set) * 2 + (averages != 0);
}

static void resolve(const odtc_trainer *t, uint32_t first, size_t count, uint32_t set, int averages,
                    odtc_gpu_launch *launches, odtc_gpu_buffer **buffers, odtc_gpu_range *ranges) {
  const struct odtc_on_gpu *gpu = t->gpu;
  const odtc_program *p = &t->program;
  for (size_t n = 0; n < count; ++n) {
    const odtc_noted_launch *noted = gpu->launches.launches + first + n;
    odtc_gpu_launch *launch = launches + n;
    *launch = (odtc_gpu_launch){.kernel = noted->kernel, .buffers = buffers, .ranges = ranges,
                                .numbers = gpu->launches.numbers + noted->numbers};
    for (int axis = 0; axis < 3; ++axis)
      launch->groups[axis] = noted->groups[axis], launch->items[axis] = noted->items[axis];
    const uint32_t *places = gpu->launches.places + noted->places;
    for (uint32_t b = 0; b < gpu->module.kernels[noted->kernel].buffers; ++b) {
      const odtc_place *place = p->places + places[b];
      *buffers++ = odtc_buffer_at(gpu, p, place, set, averages);
      *ranges++ = (odtc_gpu_range){place->offset, odtc_tensor_bytes(p->dims + place->dims, place->rank, place->bits)};
    }
  }
}

static odtc_code make(odtc_trainer *t, const odtc_function *function, uint32_t set, int averages,
                      odtc_gpu_list **list) {
  const struct odtc_on_gpu *gpu = t->gpu;
  uint32_t first = gpu->launches.first[function->first], end = gpu->launches.first[function->first + function->calls];
  size_t count = end - first, places = 0;
  for (uint32_t n = first; n < end; ++n) places += gpu->module.kernels[gpu->launches.launches[n].kernel].buffers;
  odtc_gpu_launch *launches = calloc(count + 1, sizeof *launches);
  odtc_gpu_buffer **buffers = calloc(places + 1, sizeof *buffers);
  odtc_gpu_range *ranges = calloc(places + 1, sizeof *ranges);
  if (launches && buffers && ranges) {
    resolve(t, first, count, set, averages, launches, buffers, ranges);
    gpu->api->prepare(gpu->device, launches, count, list, &t->problem);
  } else {
    odtc_fail(&t->problem, ODTC_NO_MEMORY, "there is no memory for %zu launches", count);
  }
  free(launches), free(buffers), free(ranges);
  return *list ? ODTC_OK : t->problem.code;
}

odtc_gpu_list *odtc_list_of(odtc_trainer *t, const odtc_function *function, uint32_t set, int averages) {
  odtc_gpu_list **list = list_at(t, function, set, averages);
  if (!*list) make(t, function, set, averages, list);
  return *list;
}

void odtc_free_lists(odtc_trainer *t) {
  struct odtc_on_gpu *gpu = t->gpu;
  odtc_problem nobody = {0};
  gpu->api->wait(gpu->device, NULL, &nobody);
  for (size_t set = 0; set < ODTC_SETS; ++set) gpu->reads[set] = NULL;
  for (size_t n = 0; n < t->program.every_function_count * ODTC_SETS * 2; ++n) {
    if (gpu->lists[n]) gpu->api->free_list(gpu->device, gpu->lists[n]);
    gpu->lists[n] = NULL;
  }
}

odtc_code odtc_note_list(odtc_trainer *t, const odtc_function *function, const odtc_gpu_list *list) {
  struct odtc_on_gpu *gpu = t->gpu;
  const uint32_t *first = gpu->launches.first + function->first;
  uint32_t count = first[function->calls] - first[0];
  if (!count) return ODTC_OK;
  if (gpu->api->times(gpu->device, list, gpu->times, &t->problem)) return t->problem.code;
  /* By the clock of the host, as if it had known at once that the last of them was done. */
  int64_t later = odtc_now() - gpu->times[count - 1].end;
  for (uint32_t n = 0; n < function->calls; ++n) {
    uint32_t begin = first[n] - first[0], end = first[n + 1] - first[0];
    if (begin == end) continue;
    const char *kernel = t->program.text + t->program.kernels[t->program.calls[function->first + n].kernel];
    odtc_note_times(&t->clock, kernel, gpu->times[begin].begin + later, gpu->times[end - 1].end + later);
  }
  return ODTC_OK;
}
