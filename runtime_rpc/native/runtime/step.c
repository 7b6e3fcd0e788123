/* Steps, by one of their plans. */
#include <math.h>
#include <string.h>

#include "trainer.h"

static odtc_code check_whole(odtc_trainer *t) {
  if (odtc_check_threads(t)) return t->problem.code;
  if (!t->torn) return ODTC_OK;
  return odtc_fail(&t->problem, ODTC_TORN,
                   "the weights are torn: a step ended half way; load a checkpoint");
}

odtc_code odtc_check_ready(odtc_trainer *t) {
  if (check_whole(t)) return t->problem.code;
  /* The next call of any kind is cancelled by what was asked for before it. */
  if (!atomic_exchange(&t->cancelled, 0)) return ODTC_OK;
  return odtc_fail(&t->problem, ODTC_CANCELLED, "the step was cancelled before it began");
}

/* Bytes of an arena for a function. On a GPU it suffices for steps of all lengths: what is ready to run has its place, and
   would be made ready anew wherever a step is longer than those before it. */
static size_t arena_for(const odtc_trainer *t, const odtc_function *of) {
  const odtc_program *p = &t->program;
  size_t most = of->arena_bytes;
  for (size_t n = 0; n < p->length_count && odtc_is_on_gpu(t); ++n) {
    const odtc_function *plan = p->every_function + p->lengths[n].first;
    if (plan->arena_bytes > most) most = plan->arena_bytes;
  }
  return most;
}

odtc_code odtc_need_arena(odtc_trainer *t, const odtc_function *of) {
  return t->arena.bytes < of->arena_bytes ? odtc_set_arena(t, arena_for(t, of)) : ODTC_OK;
}

/* That of the plan, or of the next smaller one where there is no memory for it. */
static odtc_code need_arena_of_plan(odtc_trainer *t) {
  const odtc_function *last = t->program.functions + t->program.plans - 1;
  while (odtc_need_arena(t, t->plan)) {
    if (t->plan == last) return t->problem.code;
    ++t->plan;
  }
  return ODTC_OK;
}

static float result_of(const odtc_trainer *t, const odtc_function *function) {
  float value;
  memcpy(&value, t->tensors[function->result].data, sizeof value);
  return value;
}

/* Takes all parts of a step by a function, and gives the sum of their losses. */
static odtc_code take_parts(odtc_trainer *t, const odtc_function *by, float rate, double *sum) {
  const odtc_program *p = &t->program;
  uint32_t parts = p->head->micro_batches;
  memcpy(t->arguments[p->rate].data, &rate, sizeof rate);
  for (uint32_t part = 0; part < parts; ++part) {
    int32_t number = (int32_t)(t->steps * parts + part);
    memcpy(t->arguments[p->step].data, &number, sizeof number);
    odtc_take_part(t, part);
    if (odtc_run(t, by, 1)) {
      t->torn |= part > 0;
      return t->problem.code;
    }
    *sum += (double)result_of(t, by);
  }
  return ODTC_OK;
}

static odtc_code take_step(odtc_trainer *t, const odtc_function *by, float rate, double *loss) {
  double sum = 0;
  if (odtc_is_on_gpu(t) ? odtc_take_on_gpu(t, rate, &sum) : take_parts(t, by, rate, &sum))
    return t->problem.code;
  double mean = t->loss = sum / t->program.head->micro_batches;
  ++t->steps;
  odtc_code code = odtc_check_finite(t, &mean, rate);
  if (loss) *loss = mean;
  return code;
}

/* Whether a step may be taken at a learning rate. */
static odtc_code check_step(odtc_trainer *t, float rate) {
  if (odtc_check_ready(t)) return t->problem.code;
  if (!(rate >= 0) || !isfinite(rate))
    return odtc_fail(&t->problem, ODTC_DATA, "the learning rate %g is not a number of 0 or more",
                     (double)rate);
  /* The number of a call is an int32. */
  if (t->steps >= INT32_MAX / (int64_t)t->program.head->micro_batches)
    return odtc_fail(&t->problem, ODTC_UNSUPPORTED, "a run takes at most %lld steps",
                     (long long)t->steps);
  return ODTC_OK;
}

odtc_code odtc_step(odtc_trainer *t, float rate, double *loss) {
  if (check_step(t, rate)) return t->problem.code;
  uint32_t samples = t->program.head->samples;
  if (odtc_check_fed(t, ODTC_INPUT, samples) || odtc_check_fed(t, ODTC_LABEL, samples) ||
      need_arena_of_plan(t))
    return t->problem.code;
  return take_step(t, t->plan, rate, loss);
}

odtc_code odtc_step_over_features(odtc_trainer *t, float rate, double *loss) {
  if (check_step(t, rate)) return t->problem.code;
  const odtc_function *by = t->program.over_features;
  if (!by || odtc_is_on_gpu(t))
    return odtc_fail(&t->problem, ODTC_USAGE, "the step cannot go on from features");
  /* Inputs may be read, too; what is fed for others is that of an earlier step. */
  uint32_t samples = t->program.head->samples;
  if (odtc_check_fed(t, ODTC_INPUT, samples) || odtc_check_fed(t, ODTC_LABEL, samples) ||
      odtc_need_arena(t, by))
    return t->problem.code;
  return take_step(t, by, rate, loss);
}

void odtc_cancel(odtc_trainer *t, int now) {
  atomic_store(&t->cancelled, now ? ODTC_CANCEL_NOW : ODTC_CANCEL_STEP);
}

odtc_code odtc_leave_arena(odtc_trainer *t) {
  const size_t kept = arena_for(t, t->plan);
  return t->arena.bytes > kept ? odtc_set_arena(t, kept) : ODTC_OK;
}

odtc_code odtc_set_budget(odtc_trainer *t, uint64_t bytes) {
  const odtc_program *p = &t->program;
  uint64_t least = UINT64_MAX;
  if (odtc_check_open(t)) return t->problem.code;
  for (size_t n = 0; n < p->plans; ++n) {
    const odtc_function *plan = p->functions + n;
    if (plan->budget_bytes < least) least = plan->budget_bytes;
    if (plan->budget_bytes > bytes) continue;
    t->plan = plan;
    return odtc_leave_arena(t);
  }
  return odtc_fail(&t->problem, ODTC_BUDGET,
                   "the step needs at least %llu bytes in addition to the parameters; the budget is %llu",
                   (unsigned long long)least, (unsigned long long)bytes);
}
