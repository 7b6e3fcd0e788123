/* Steps and evaluations on a GPU. */
#include <stdlib.h>
#include <string.h>

#include "on_gpu.h"

/* The set that the next part of a step reads. */
static uint32_t next_set(const struct odtc_on_gpu *gpu) { return gpu->second ? !gpu->last : 0; }

/* Gives a set so many samples, which lie where `data` says, or where tensors in memory point; an evaluation reads no
   labels. */
static odtc_code write_set(odtc_trainer *t, uint32_t set, uint32_t samples, int labels, const void *const *data,
                           odtc_problem *problem) {
  const odtc_program *p = &t->program;
  const struct odtc_on_gpu *gpu = t->gpu;
  for (size_t n = 0; n < p->argument_count; ++n) {
    const uint32_t place = gpu->place_of[n];
    if (!odtc_is_fed(p, n) || place == ODTC_NONE || (p->arguments[n].role == ODTC_LABEL && !labels)) continue;
    const uint8_t *from = (const uint8_t *)t->tensors[place].data - p->places[place].offset;
    if (data && data[n]) from = data[n];
    if (gpu->api->write(gpu->device, odtc_buffer_of(gpu, p, n, set), 0, from, odtc_sample_bytes(p, n, samples), problem))
      return problem->code;
  }
  return ODTC_OK;
}

/* Waits until nothing reads a set. */
static odtc_code wait_for_set(const struct odtc_on_gpu *gpu, uint32_t set, odtc_problem *problem) {
  return gpu->reads[set] ? gpu->api->wait(gpu->device, gpu->reads[set], problem) : ODTC_OK;
}

static uint32_t samples_of_part(const odtc_program *p) { return p->head->samples / p->head->micro_batches; }

static int send_next(odtc_trainer *t, const void *const *data) {
  struct odtc_on_gpu *gpu = t->gpu;
  odtc_problem nobody = {0}; /* the step sends it again where this fails, and says why that does */
  if (!t->is_open || !gpu || !odtc_need_second_set(t)) return 0;
  uint32_t set = next_set(gpu);
  /* The part before the last one may still read the set. */
  if (!odtc_list_of(t, t->plan, set, 0) || wait_for_set(gpu, set, &nobody)) return 0;
  odtc_take_part(t, 0);
  return gpu->is_ahead = !write_set(t, set, samples_of_part(&t->program), 1, data, &nobody);
}

void odtc_send_next(odtc_trainer *t) { send_next(t, NULL); }

int odtc_send_next_from(odtc_trainer *t, const void *const *data) {
  /* Further parts of a step are read from its memory. */
  return t->is_open && t->program.head->micro_batches == 1 && send_next(t, data);
}

void odtc_drop_next(odtc_trainer *t) {
  if (t->is_open && t->gpu) t->gpu->is_ahead = 0;
}

void odtc_leave_length_on_gpu(odtc_trainer *t) { odtc_drop_next(t); }

void odtc_while_waiting(odtc_trainer *t, void (*function)(void *), void *with) {
  if (t->is_open && t->gpu) t->gpu->waiting = function, t->gpu->waiting_with = with;
}

static odtc_code put_number(odtc_trainer *t, size_t argument, const void *from) {
  const struct odtc_on_gpu *gpu = t->gpu;
  return gpu->api->put(gpu->device, gpu->arguments[argument], 0, from, 4, &t->problem);
}

/* Queues a part of a step: what it is fed has to be there before, and nothing waits for it. */
static odtc_code queue_part(odtc_trainer *t, uint32_t part, float rate) {
  const odtc_program *p = &t->program;
  struct odtc_on_gpu *gpu = t->gpu;
  const odtc_place *result = p->places + t->plan->result;
  int32_t number = (int32_t)(t->steps * p->head->micro_batches + part);
  if (p->head->micro_batches > 1) odtc_need_second_set(t);
  uint32_t set = next_set(gpu);
  odtc_gpu_list *list = odtc_list_of(t, t->plan, set, 0);
  /* The part before the last one may still read the set. */
  if (!list || wait_for_set(gpu, set, &t->problem)) return t->problem.code;
  if (!gpu->is_ahead) {
    odtc_take_part(t, part);
    if (write_set(t, set, samples_of_part(p), 1, NULL, &t->problem)) return t->problem.code;
  }
  gpu->is_ahead = 0;
  gpu->last = set;
  gpu->reads[set] = list;
  t->torn = 1; /* until all is done */
  if (put_number(t, p->rate, &rate) || put_number(t, p->step, &number) ||
      gpu->api->run(gpu->device, list, &t->problem) ||
      gpu->api->take(gpu->device, odtc_buffer_at(gpu, p, result, set, 0), result->offset, gpu->losses + part,
                     sizeof *gpu->losses, &t->problem))
    return t->problem.code;
  if (t->clock.is_on && (gpu->api->wait(gpu->device, NULL, &t->problem) || odtc_note_list(t, t->plan, list)))
    return t->problem.code;
  return ODTC_OK;
}

static odtc_code cancelled(odtc_trainer *t, uint32_t part) {
  atomic_store(&t->cancelled, 0);
  return odtc_fail(&t->problem, ODTC_CANCELLED, "%.100s was cancelled before part %u of %u",
                   t->program.text + t->plan->name, part + 1, t->program.head->micro_batches);
}

odtc_code odtc_take_on_gpu(odtc_trainer *t, float rate, double *sum) {
  struct odtc_on_gpu *gpu = t->gpu;
  const uint32_t parts = t->program.head->micro_batches;
  odtc_code code = ODTC_OK;
  uint32_t part = 0;
  for (; part < parts && !code; ++part)
    code = atomic_load(&t->cancelled) == ODTC_CANCEL_NOW ? cancelled(t, part) : queue_part(t, part, rate);
  if (!code && gpu->waiting) gpu->waiting(gpu->waiting_with);
  odtc_problem waited = {0};
  if (gpu->api->wait(gpu->device, NULL, &waited) && !code) {
    t->problem = waited;
    code = waited.code;
  }
  if (!code) t->torn = 0;
  for (part = 0; part < parts && !code; ++part) *sum += (double)gpu->losses[part];
  return code;
}

/* Whether averages stand in the place of parameters: where one of these points, is where its average lies. */
static int reads_averages(const odtc_trainer *t) {
  const odtc_program *p = &t->program;
  const struct odtc_on_gpu *gpu = t->gpu;
  for (size_t n = 0; n < p->argument_count; ++n) {
    const uint32_t place = gpu->place_of[n], average = gpu->average_of[n];
    if (place == ODTC_NONE || average == ODTC_NONE) continue;
    return (uint8_t *)t->tensors[place].data - p->places[place].offset == t->parts[average];
  }
  return 0;
}

/* Where the result of a function is to be in memory; one that lies in the arena has no place of its own. */
static uint8_t *memory_of_result(odtc_trainer *t, const odtc_function *function, size_t bytes) {
  odtc_kernel_tensor *tensor = t->tensors + function->result;
  if (t->program.places[function->result].region != ODTC_IN_ARENA) return tensor->data;
  uint8_t *moved = realloc(t->gpu->computed, bytes + 1);
  if (moved) tensor->data = t->gpu->computed = moved;
  return moved;
}

odtc_code odtc_run_on_gpu(odtc_trainer *t, const odtc_function *function) {
  const odtc_program *p = &t->program;
  const odtc_place *result = p->places + function->result;
  struct odtc_on_gpu *gpu = t->gpu;
  int averages = reads_averages(t);
  /* What was sent ahead stays. */
  uint32_t set = gpu->is_ahead ? gpu->last : next_set(gpu);
  odtc_gpu_list *list = odtc_list_of(t, function, set, averages);
  size_t bytes = odtc_tensor_bytes(p->dims + result->dims, result->rank, result->bits);
  uint8_t *to = memory_of_result(t, function, bytes);
  if (!list) return t->problem.code;
  if (!to) return odtc_fail(&t->problem, ODTC_NO_MEMORY, "there is no memory for a result of %zu bytes", bytes);
  if (write_set(t, set, function->samples, 0, NULL, &t->problem) || gpu->api->run(gpu->device, list, &t->problem) ||
      gpu->api->read(gpu->device, odtc_buffer_at(gpu, p, result, set, averages), result->offset, to, bytes, &t->problem) ||
      gpu->api->wait(gpu->device, list, &t->problem))
    return t->problem.code;
  return t->clock.is_on ? odtc_note_list(t, function, list) : ODTC_OK;
}
