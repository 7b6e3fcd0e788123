/* Evaluations: of as many samples as a step has or of fewer, by the functions that are compiled for them. */
#include <string.h>

#include "trainer.h"

static const odtc_function *find_evaluation(const odtc_trainer *t, const char *output) {
  const odtc_program *p = &t->program;
  for (size_t n = p->plans; n < p->function_count; ++n)
    if (p->functions + n != p->over_features && (!output || !strcmp(p->text + p->functions[n].output, output)))
      return p->functions + n;
  return NULL;
}

/* Lets what reads parameters read their averages; whether there are any. */
static int give_averages(odtc_trainer *t) {
  const odtc_program *p = &t->program;
  int found = 0;
  for (size_t n = 0; n < p->argument_count; ++n) {
    if (p->arguments[n].role != ODTC_AVERAGE) continue;
    odtc_point_argument(t, p->arguments[n].averaged, t->parts[n]);
    found = 1;
  }
  return found;
}

/* Whether a function is one for fewer samples of the output that an evaluation is of. */
static int is_further(const odtc_program *p, const odtc_function *each, const odtc_function *of) {
  return each < p->functions + p->function_count && each->output == of->output &&
         each->samples < of->samples;
}

/* The function for what is left: the smallest that has room for all of it; but where more of that room
   would be empty than full, the next smaller one. runtime_rpc/feed/batches.py has the same rule. */
static const odtc_function *function_for(const odtc_program *p, const odtc_function *first, uint32_t left) {
  const odtc_function *best = first, *next = first + 1;
  if (best->samples <= left) return best;
  for (; is_further(p, next, first) && next->samples >= left; ++next) best = next;
  return is_further(p, next, first) && best->samples - left > left ? next : best;
}

static int has_samples(const odtc_argument *a) { return a->role == ODTC_INPUT && a->groups; }

/* Where samples are copied to; large enough for each function. */
static odtc_code need_aside(odtc_trainer *t) {
  const odtc_program *p = &t->program;
  size_t bytes = ODTC_ALIGNMENT;
  for (size_t n = 0; n < p->argument_count; ++n)
    if (has_samples(p->arguments + n)) bytes += odtc_aligned(odtc_part_bytes(p, n));
  return odtc_resize(&t->aside, bytes, &t->problem);
}

/* Lets a function read so many samples of all that is fed; where it has room for more, the last of them again:
   a model may be unable to compute with anything else, as with zeros that it divides by. */
static odtc_code give_samples(odtc_trainer *t, const odtc_function *of, uint32_t first, uint32_t count) {
  const odtc_program *p = &t->program;
  uint32_t batch = p->head->samples;
  size_t offset = 0;
  for (size_t n = 0; n < p->argument_count; ++n) {
    const odtc_argument *a = p->arguments + n;
    if (!has_samples(a)) continue;
    size_t bytes = a->bytes / a->groups / batch;
    odtc_samples fed = {t->arguments[n].data, first, batch};
    uint8_t *data = fed.data + first * bytes;
    int is_one_piece = count == of->samples && (a->groups == 1 || count == batch);
    if (!is_one_piece || (uintptr_t)data % ODTC_ALIGNMENT) {
      if (need_aside(t)) return t->problem.code;
      data = t->aside.at + offset;
      odtc_copy_samples((odtc_samples){data, 0, of->samples}, fed, a->groups, bytes, count);
      fed.first += count - 1;
      for (uint32_t more = count; more < of->samples; ++more)
        odtc_copy_samples((odtc_samples){data, more, of->samples}, fed, a->groups, bytes, 1);
    }
    odtc_point_argument(t, (uint32_t)n, data);
    offset += odtc_aligned(odtc_part_bytes(p, n));
  }
  return ODTC_OK;
}

/* Adds what a function gave for some samples, the first of its own, to the result of all. */
static odtc_code join(odtc_trainer *t, const odtc_function *of, uint32_t first, uint32_t count,
                      uint32_t samples) {
  size_t whole = odtc_whole_result_bytes(&t->program, of);
  if (t->joined.bytes < whole + ODTC_ALIGNMENT &&
      odtc_resize(&t->joined, whole + ODTC_ALIGNMENT, &t->problem))
    return t->problem.code;
  odtc_samples all = {t->joined.at, first, samples};
  odtc_samples those = {t->tensors[of->result].data, 0, of->samples};
  odtc_copy_samples(all, those, of->groups, whole / of->groups / t->program.head->samples, count);
  return ODTC_OK;
}

/* Evaluates the first samples of what is fed; the result lies in `data` then. */
static odtc_code evaluate_samples(odtc_trainer *t, const odtc_function *first, uint32_t samples,
                                  uint8_t **data) {
  for (uint32_t done = 0, count; done < samples; done += count) {
    const odtc_function *of = function_for(&t->program, first, samples - done);
    count = of->samples < samples - done ? of->samples : samples - done;
    if (odtc_need_arena(t, of) || give_samples(t, of, done, count) || odtc_run(t, of, 0))
      return t->problem.code;
    *data = t->tensors[of->result].data;
    if (count == samples && (count == of->samples || of->groups == 1)) break; /* as it lies there */
    if (join(t, of, done, count, samples)) return t->problem.code;
    *data = t->joined.at;
  }
  return ODTC_OK;
}

/* Evaluates so many samples of what is fed; 0 for the micro-batch that lies where parts do. */
static odtc_code evaluate(odtc_trainer *t, const odtc_function *of, int averages, uint32_t samples,
                          odtc_tensor *result) {
  const odtc_place *place = t->program.places + of->result;
  uint8_t *data = NULL;
  odtc_code code;
  if (averages && !give_averages(t))
    return odtc_fail(&t->problem, ODTC_USAGE, "the step keeps no moving averages of parameters");
  if (of->groups && samples)
    code = evaluate_samples(t, of, samples, &data);
  else if (!(code = odtc_need_arena(t, of)) && !(code = odtc_run(t, of, 0)))
    data = t->tensors[of->result].data;
  odtc_point(t, ODTC_IN_ARGUMENT); /* as a step reads them */
  if (code || odtc_leave_arena(t)) return t->problem.code;
  const int64_t *shape = t->program.dims + (samples ? of->dims : place->dims);
  memcpy(t->shape, shape, place->rank * sizeof *shape);
  if (of->groups && samples) t->shape[of->axis] = shape[of->axis] / t->program.head->samples * samples;
  *result = (odtc_tensor){.name = t->program.text + of->output, .role = ODTC_INPUT,
                          .code = place->code, .bits = place->bits, .rank = (int)place->rank,
                          .shape = t->shape, .data = data};
  result->bytes = odtc_tensor_bytes(t->shape, place->rank, place->bits);
  return ODTC_OK;
}

const odtc_function *odtc_ready_evaluation(odtc_trainer *t, const char *output) {
  if (odtc_check_ready(t)) return NULL;
  const odtc_function *of = find_evaluation(t, output);
  if (!of)
    odtc_fail(&t->problem, ODTC_USAGE, "the output %.100s cannot be evaluated", output ? output : "");
  return of;
}

/* Whether so many samples of a step can be evaluated. */
static odtc_code check_samples(odtc_trainer *t, const odtc_function *of, uint32_t samples) {
  const odtc_program_head *head = t->program.head;
  uint32_t batch = head->samples / head->micro_batches;
  if (!samples || samples > head->samples)
    return odtc_fail(&t->problem, ODTC_USAGE, "%u samples are to be evaluated; a step has room for 1 to %u",
                     samples, head->samples);
  if (!of->groups && (samples != batch || batch != head->samples))
    return odtc_fail(&t->problem, ODTC_UNSUPPORTED,
                     "nothing shows where the samples lie in %.100s: %u of them cannot be evaluated, "
                     "only a micro-batch of %u",
                     t->program.text + of->output, samples, batch);
  return odtc_check_fed(t, ODTC_INPUT, samples);
}

uint32_t odtc_samples_of_step(const odtc_trainer *t) {
  return t->is_open ? t->program.head->samples : 0;
}

odtc_code odtc_evaluate_samples(odtc_trainer *t, const char *output, int averages, uint32_t samples,
                                odtc_tensor *result) {
  if (odtc_check_given(t, result, "a tensor for the result")) return t->problem.code;
  const odtc_function *of = odtc_ready_evaluation(t, output);
  if (!of || check_samples(t, of, samples)) return t->problem.code;
  return evaluate(t, of, averages, samples, result);
}

odtc_code odtc_evaluate(odtc_trainer *t, const char *output, int averages, odtc_tensor *result) {
  return odtc_evaluate_samples(t, output, averages, odtc_samples_of_step(t), result);
}

odtc_code odtc_evaluate_part(odtc_trainer *t, const char *output, int averages, odtc_tensor *result) {
  if (odtc_check_given(t, result, "a tensor for the result")) return t->problem.code;
  const odtc_function *of = odtc_ready_evaluation(t, output);
  if (!of || odtc_check_fed(t, ODTC_INPUT, 0)) return t->problem.code;
  return evaluate(t, of, averages, 0, result);
}
