/* A step that can be taken at several lengths: which of them is. */
#include "trainer.h"

static odtc_code find_length(odtc_trainer *t, uint64_t length, size_t *number) {
  const odtc_program *p = &t->program;
  for (*number = 0; *number < p->length_count; ++*number)
    if (p->lengths[*number].length == length) return ODTC_OK;
  return odtc_fail(&t->problem, ODTC_USAGE, "the step is not compiled for a length of %llu",
                   (unsigned long long)length);
}

odtc_code odtc_set_length(odtc_trainer *t, uint64_t length) {
  size_t number;
  if (odtc_check_open(t) || find_length(t, length, &number)) return t->problem.code;
  odtc_program *p = &t->program;
  if (p->functions != p->every_function + p->lengths[number].first) odtc_leave_length_on_gpu(t);
  odtc_program_take_length(p, number);
  /* The fastest again: a budget holds for the length for which it was set. The arena stays as large as it is. */
  t->plan = p->functions;
  for (size_t n = 0; n < p->argument_count; ++n) {
    t->arguments[n].shape = p->dims + p->arguments[n].dims;
    t->arguments[n].bytes = p->arguments[n].bytes;
  }
  return ODTC_OK;
}

uint64_t odtc_length_at(const odtc_trainer *t, size_t number) {
  return t->is_open && number < t->program.length_count ? t->program.lengths[number].length : 0;
}
