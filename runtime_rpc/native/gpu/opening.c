/* From the files of an artifact to a device that is ready for a step. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "on_gpu.h"
#include "sets.h"

int odtc_is_for_gpu(const odtc_program *p) { return odtc_fact_of(p, "gpu", 0) != NULL; }

int odtc_is_on_gpu(const odtc_trainer *t) { return t->gpu != NULL; }

const char *odtc_gpu_name(const odtc_trainer *t) { return t->is_open && t->gpu ? t->gpu->name : NULL; }

/* What a GPU has no use for is refused, and not left out. */
static odtc_code check_options(odtc_trainer *t, const odtc_options *options) {
  const odtc_program *p = &t->program;
  if (options->offload_state)
    return odtc_fail(&t->problem, ODTC_USAGE, "optimizer state cannot lie in files: a GPU reads none");
  for (size_t n = 0; n < p->argument_count; ++n)
    if (p->arguments[n].role == ODTC_STORAGE && p->arguments[n].bytes)
      return odtc_fail(&t->problem, ODTC_UNSUPPORTED, "%.100s waits in a file: a GPU reads none",
                       p->text + p->arguments[n].name);
  return ODTC_OK;
}

/* The library's modules, with the number of their bytes before them. */
static odtc_code read_module(odtc_trainer *t) {
  static const char SYMBOL[] = "__tvm_ffi__library_bin";
  uint64_t bytes;
  const uint8_t *at = t->library.handle ? dlsym(t->library.handle, SYMBOL) : NULL;
  if (!at) return odtc_fail(&t->problem, ODTC_MISFIT, "the library has no kernels for a GPU");
  memcpy(&bytes, at, sizeof bytes);
  /* The linker has the symbol's bytes; that they are all there, its build id says. */
  return odtc_device_module_read(at + sizeof bytes, (size_t)bytes, &t->gpu->module, &t->problem);
}

static odtc_code make_tables(odtc_trainer *t) {
  const odtc_program *p = &t->program;
  struct odtc_on_gpu *gpu = t->gpu;
  size_t most = 0;
  gpu->average_of = calloc(p->argument_count + 1, sizeof *gpu->average_of);
  gpu->place_of = calloc(p->argument_count + 1, sizeof *gpu->place_of);
  gpu->lists = calloc(p->every_function_count * ODTC_SETS * 2 + 1, sizeof(odtc_gpu_list *));
  gpu->losses = calloc(p->head->micro_batches, sizeof *gpu->losses);
  for (size_t n = 0; n < p->every_function_count; ++n) {
    const odtc_function *of = p->every_function + n;
    const uint32_t *first = gpu->launches.first + of->first;
    size_t count = first[of->calls] - first[0];
    if (count > most) most = count;
  }
  gpu->times = calloc(most + 1, sizeof *gpu->times);
  if (!gpu->average_of || !gpu->place_of || !gpu->lists || !gpu->losses || !gpu->times)
    return odtc_fail(&t->problem, ODTC_NO_MEMORY, "there is no memory for %zu arguments", p->argument_count);
  for (size_t n = 0; n < p->argument_count; ++n) gpu->average_of[n] = gpu->place_of[n] = ODTC_NONE;
  for (size_t n = 0; n < p->argument_count; ++n)
    if (p->arguments[n].role == ODTC_AVERAGE) gpu->average_of[p->arguments[n].averaged] = (uint32_t)n;
  for (size_t n = 0; n < p->place_count; ++n)
    if (p->places[n].region == ODTC_IN_ARGUMENT) gpu->place_of[p->places[n].number] = (uint32_t)n;
  return ODTC_OK;
}

/* Before the driver compiles anything. */
static odtc_code check_groups(odtc_trainer *t) {
  const struct odtc_on_gpu *gpu = t->gpu;
  for (size_t n = 0; n < gpu->launches.count; ++n) {
    const odtc_noted_launch *each = gpu->launches.launches + n;
    uint64_t items = (uint64_t)each->items[0] * each->items[1] * each->items[2];
    if (items > gpu->about.most_items)
      return odtc_fail(&t->problem, ODTC_UNSUPPORTED,
                       "the kernel %.100s has work-groups of %llu items; %.100s takes at most %llu",
                       gpu->module.kernels[each->kernel].name, (unsigned long long)items, gpu->about.name,
                       (unsigned long long)gpu->about.most_items);
  }
  return ODTC_OK;
}

odtc_code odtc_start_gpu(odtc_trainer *t, const odtc_options *options) {
  const char *cache = odtc_fact_of(&t->program, "once", 0) ? NULL : options->gpu_cache;
  const odtc_gpu_options asked = {.number = options->gpu, .cache = cache};
  if (check_options(t, options)) return t->problem.code;
  struct odtc_on_gpu *gpu = t->gpu = calloc(1, sizeof *gpu);
  if (!gpu) return odtc_fail(&t->problem, ODTC_NO_MEMORY, "there is no memory for a device");
  if (read_module(t) ||
      odtc_note_launches(&t->program, t->kernels, &gpu->module, &gpu->launches, &t->problem) ||
      odtc_note_uses(&t->program, &gpu->launches, &gpu->module, &t->problem) || make_tables(t))
    return t->problem.code;
  gpu->api = gpu->module.interface;
  if (gpu->api->open(&asked, &gpu->device, &gpu->about, &t->problem) || check_groups(t) ||
      gpu->api->load(gpu->device, gpu->module.kernels, gpu->module.count, &t->problem))
    return t->problem.code;
  snprintf(gpu->name, sizeof gpu->name, "%s, %s", gpu->about.name, gpu->about.driver);
  return odtc_fill_gpu(t);
}

void odtc_end_gpu(odtc_trainer *t) {
  struct odtc_on_gpu *gpu = t->gpu;
  if (!gpu) return;
  if (gpu->device) gpu->api->close(gpu->device);
  odtc_launches_end(&gpu->launches);
  odtc_device_module_end(&gpu->module);
  odtc_text_end(&gpu->described);
  free(gpu->arguments), free(gpu->second);
  free(gpu->average_of), free(gpu->place_of);
  free(gpu->lists), free(gpu->losses), free(gpu->times), free(gpu->computed);
  free(gpu);
  t->gpu = NULL;
}

odtc_code odtc_time_gpu(odtc_trainer *t, int is_timed) {
  return t->gpu ? t->gpu->api->set_timed(t->gpu->device, is_timed, &t->problem) : ODTC_OK;
}

static odtc_code check_number(odtc_trainer *t, size_t number) {
  if (odtc_check_open(t)) return t->problem.code;
  if (number < t->program.argument_count) return ODTC_OK;
  return odtc_fail(&t->problem, ODTC_USAGE, "there is no tensor %zu", number);
}

odtc_code odtc_fetch(odtc_trainer *t, size_t number) {
  return check_number(t, number) ? t->problem.code : odtc_fetch_argument(t, number);
}

odtc_code odtc_send(odtc_trainer *t, size_t number) {
  return check_number(t, number) ? t->problem.code : odtc_send_argument(t, number);
}
