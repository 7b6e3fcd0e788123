/* Steps and evaluations. */
#include <math.h>
#include <string.h>

#include "trainer.h"

static odtc_code check_whole(odtc_trainer *t) {
  if (odtc_check_threads(t)) return t->problem.code;
  if (!t->torn) return ODTC_OK;
  return odtc_fail(&t->problem, ODTC_TORN,
                   "the weights are torn: a step ended half way; load a checkpoint");
}

/* The next call of any kind is cancelled by what was asked for before it. */
static odtc_code check_cancelled(odtc_trainer *t) {
  if (!atomic_exchange(&t->cancelled, 0)) return ODTC_OK;
  return odtc_fail(&t->problem, ODTC_CANCELLED, "the step was cancelled before it began");
}

/* An arena that suffices for a function. */
static odtc_code need_arena(odtc_trainer *t, const odtc_function *of) {
  return t->arena.bytes < of->arena_bytes ? odtc_set_arena(t, of->arena_bytes) : ODTC_OK;
}

/* That of the plan, or of the next smaller one where there is no memory for it. */
static odtc_code need_arena_of_plan(odtc_trainer *t) {
  const odtc_function *last = t->program.functions + t->program.plans - 1;
  while (need_arena(t, t->plan)) {
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

static odtc_code take_step(odtc_trainer *t, float rate, double *loss) {
  const odtc_program *p = &t->program;
  uint32_t parts = p->head->micro_batches;
  double sum = 0;
  memcpy(t->arguments[p->rate].data, &rate, sizeof rate);
  for (uint32_t part = 0; part < parts; ++part) {
    int32_t number = (int32_t)(t->steps * parts + part);
    memcpy(t->arguments[p->step].data, &number, sizeof number);
    odtc_take_part(t, part);
    if (odtc_run(t, t->plan, 1)) {
      t->torn |= part > 0;
      return t->problem.code;
    }
    sum += (double)result_of(t, t->plan);
  }
  double mean = sum / parts;
  if (loss) *loss = mean;
  ++t->steps;
  return odtc_check_finite(t, mean, rate);
}

odtc_code odtc_step(odtc_trainer *t, float rate, double *loss) {
  if (check_whole(t) || check_cancelled(t)) return t->problem.code;
  if (!(rate >= 0) || !isfinite(rate))
    return odtc_fail(&t->problem, ODTC_DATA, "the learning rate %g is not a number of 0 or more",
                     (double)rate);
  /* The number of a call is an int32. */
  if (t->steps >= INT32_MAX / (int64_t)t->program.head->micro_batches)
    return odtc_fail(&t->problem, ODTC_UNSUPPORTED, "%lld steps are the most of a run",
                     (long long)t->steps);
  if (odtc_check_fed(t, ODTC_INPUT, 0) || odtc_check_fed(t, ODTC_LABEL, 0) || need_arena_of_plan(t))
    return t->problem.code;
  return take_step(t, rate, loss);
}

void odtc_cancel(odtc_trainer *t, int now) {
  atomic_store(&t->cancelled, now ? ODTC_CANCEL_NOW : ODTC_CANCEL_STEP);
}

/* Gives back what the plan does not need; what it needs more a step asks for. */
static odtc_code leave_arena(odtc_trainer *t) {
  return t->arena.bytes > t->plan->arena_bytes ? odtc_set_arena(t, t->plan->arena_bytes) : ODTC_OK;
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
    return leave_arena(t);
  }
  return odtc_fail(&t->problem, ODTC_BUDGET,
                   "the step needs at least %llu bytes beside the parameters; the budget is %llu",
                   (unsigned long long)least, (unsigned long long)bytes);
}

static const odtc_function *find_evaluation(const odtc_trainer *t, const char *output) {
  const odtc_program *p = &t->program;
  for (size_t n = p->plans; n < p->function_count; ++n)
    if (!output || !strcmp(p->text + p->functions[n].output, output)) return p->functions + n;
  return NULL;
}

/* Lets what reads parameters read their averages, or themselves again; whether there are any. */
static int exchange_averages(odtc_trainer *t, int averages) {
  const odtc_program *p = &t->program;
  int found = 0;
  for (size_t n = 0; n < p->argument_count; ++n) {
    if (p->arguments[n].role != ODTC_AVERAGE) continue;
    uint32_t of = p->arguments[n].averaged;
    odtc_point_argument(t, of, averages ? t->parts[n] : t->parts[of]);
    found = 1;
  }
  return found;
}

/* Runs an evaluation for each part of what is fed; its result lies in `data` then. */
static odtc_code evaluate_parts(odtc_trainer *t, const odtc_function *of, uint8_t **data) {
  uint32_t parts = of->groups ? t->program.head->micro_batches : 1;
  size_t whole = odtc_whole_result_bytes(&t->program, of);
  for (uint32_t part = 0; part < parts; ++part) {
    odtc_take_part(t, part);
    if (odtc_run(t, of, 0)) return t->problem.code;
    *data = t->tensors[of->result].data;
    if (parts > 1) odtc_copy_part(t->joined, *data, whole / parts, of->groups, parts, part, 0);
  }
  if (parts > 1) *data = t->joined;
  return ODTC_OK;
}

/* An evaluation that may run, and its arena; NULL where something is wrong. */
static const odtc_function *ready_evaluation(odtc_trainer *t, const char *output, int is_part) {
  if (check_whole(t) || check_cancelled(t)) return NULL;
  const odtc_function *of = find_evaluation(t, output);
  if (!of)
    odtc_fail(&t->problem, ODTC_USAGE, "the output %.100s cannot be evaluated",
              output ? output : "");
  else if (!is_part && !of->groups && t->program.head->micro_batches > 1)
    odtc_fail(&t->problem, ODTC_UNSUPPORTED,
              "nothing shows where the samples lie in %.100s: it cannot be evaluated for a "
              "step of %u micro-batches",
              t->program.text + of->output, t->program.head->micro_batches);
  else if (!odtc_check_fed(t, ODTC_INPUT, is_part) && !need_arena(t, of))
    return of;
  return NULL;
}

/* Evaluates what is fed, or one part of it; describes the result but for its shape and bytes. */
static odtc_code evaluate(odtc_trainer *t, const odtc_function *of, int averages, int is_part,
                          odtc_tensor *result) {
  const odtc_place *place = t->program.places + of->result;
  uint8_t *data = NULL;
  if (averages && !exchange_averages(t, 1))
    return odtc_fail(&t->problem, ODTC_USAGE, "the step keeps no moving averages of parameters");
  odtc_code code = is_part ? odtc_run(t, of, 0) : evaluate_parts(t, of, &data);
  if (averages) exchange_averages(t, 0);
  if (code || leave_arena(t)) return t->problem.code;
  *result = (odtc_tensor){.name = t->program.text + of->output, .role = ODTC_INPUT,
                          .code = place->code, .bits = place->bits, .rank = (int)place->rank,
                          .data = is_part ? t->tensors[of->result].data : data};
  return ODTC_OK;
}

odtc_code odtc_evaluate(odtc_trainer *t, const char *output, int averages, odtc_tensor *result) {
  const odtc_function *of = ready_evaluation(t, output, 0);
  if (!of || evaluate(t, of, averages, 0, result)) return t->problem.code;
  result->shape = t->program.dims + of->dims;
  result->bytes = odtc_whole_result_bytes(&t->program, of);
  return ODTC_OK;
}

odtc_code odtc_evaluate_part(odtc_trainer *t, const char *output, int averages,
                             odtc_tensor *result) {
  const odtc_function *of = ready_evaluation(t, output, 1);
  if (!of || evaluate(t, of, averages, 1, result)) return t->problem.code;
  result->shape = t->program.dims + t->program.places[of->result].dims;
  result->bytes = odtc_tensor_bytes(result->shape, (size_t)result->rank, (unsigned)result->bits);
  return ODTC_OK;
}
