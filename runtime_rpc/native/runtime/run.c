/* The calls of a function, and the memory that they work in. */
#include "trainer.h"

static uint8_t *base_of(const odtc_trainer *t, const odtc_place *place) {
  switch (place->region) {
    case ODTC_IN_ARGUMENT: return t->parts[place->number];
    case ODTC_IN_CONSTANT: return (uint8_t *)t->program.constants;
    case ODTC_IN_ARENA: return t->arena.at;
    default: return t->result;
  }
}

void odtc_point(odtc_trainer *t, uint32_t region) {
  for (size_t n = 0; n < t->program.place_count; ++n) {
    const odtc_place *place = t->program.places + n;
    if (place->region != region) continue;
    uint8_t *base = base_of(t, place);
    t->tensors[n].data = base ? base + place->offset : NULL;
  }
}

void odtc_point_argument(odtc_trainer *t, uint32_t argument, uint8_t *data) {
  for (size_t n = 0; n < t->program.place_count; ++n) {
    const odtc_place *place = t->program.places + n;
    if (place->region == ODTC_IN_ARGUMENT && place->number == argument)
      t->tensors[n].data = data + place->offset;
  }
}

odtc_code odtc_set_arena(odtc_trainer *t, size_t bytes) {
  uint8_t *before = t->arena.at;
  if (odtc_is_on_gpu(t)) return odtc_set_arena_on_gpu(t, bytes);
  if (odtc_resize(&t->arena, bytes, &t->problem)) return t->problem.code;
  if (t->arena.at != before) odtc_point(t, ODTC_IN_ARENA);
  return ODTC_OK;
}

static odtc_code cancelled(odtc_trainer *t, const odtc_function *function, uint32_t call,
                           int changes) {
  atomic_store(&t->cancelled, 0);
  if (changes && call) t->torn = 1;
  return odtc_fail(&t->problem, ODTC_CANCELLED, "%.100s was cancelled before call %u of %u",
                   t->program.text + function->name, call + 1, function->calls);
}

odtc_code odtc_run(odtc_trainer *t, const odtc_function *function, int changes) {
  const odtc_program *p = &t->program;
  odtc_pool *before;
  odtc_code code = ODTC_OK;
  if (odtc_is_on_gpu(t)) return odtc_run_on_gpu(t, function);
  t->has_run = 1;
  if (odtc_pool_use(t->pool, &before))
    return odtc_fail(&t->problem, ODTC_NO_MEMORY, "there is no memory for a variable of this thread");
  for (uint32_t n = 0; n < function->calls && !code; ++n) {
    const odtc_call *call = p->calls + function->first + n;
    odtc_kernel_value result = {0};
    int64_t begin = t->clock.is_on ? odtc_now() : 0;
    if (atomic_load_explicit(&t->cancelled, memory_order_relaxed) == ODTC_CANCEL_NOW) {
      code = cancelled(t, function, n, changes);
    } else if (t->kernels[call->kernel](NULL, t->operands + call->first,
                                                (int32_t)call->operands, &result)) {
      t->torn |= changes;
      code = odtc_fail(&t->problem, ODTC_KERNEL, "the kernel %.100s failed in call %u of %.100s",
                       p->text + p->kernels[call->kernel], n + 1, p->text + function->name);
    } else if (t->clock.is_on) {
      odtc_note(&t->clock, p->text + p->kernels[call->kernel], begin);
    }
  }
  odtc_pool_use(before, &before);
  return code;
}
