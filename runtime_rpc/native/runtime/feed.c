/* What a step is fed: whether its integers are within their bounds, and a call's part of it. */
#include <string.h>

#include "trainer.h"

static int64_t integer_at(const odtc_tensor *tensor, const void *data, size_t n) {
  switch (tensor->code * 128 + tensor->bits) {
    case 8: return ((const int8_t *)data)[n];
    case 16: return ((const int16_t *)data)[n];
    case 32: return ((const int32_t *)data)[n];
    case 128 + 8: return ((const uint8_t *)data)[n];
    case 128 + 16: return ((const uint16_t *)data)[n];
    case 128 + 32: return ((const uint32_t *)data)[n];
    default: return ((const int64_t *)data)[n]; /* of 64 bits without a sign, the upper half is < 0 */
  }
}

static odtc_code check_bounds(odtc_trainer *t, const odtc_argument *a, const odtc_tensor *tensor,
                              const void *data, size_t bytes) {
  size_t count = bytes / ((size_t)tensor->bits / 8);
  for (size_t n = 0; n < count; ++n) {
    int64_t value = integer_at(tensor, data, n);
    if (value >= a->least && value <= a->most) continue;
    if (a->flags & ODTC_IGNORES && value == a->ignored) continue;
    return odtc_fail(&t->problem, ODTC_DATA, "element %zu of %.100s is %lld, outside [%lld, %lld]",
                     n, tensor->name, (long long)value, (long long)a->least, (long long)a->most);
  }
  return ODTC_OK;
}

odtc_code odtc_check_fed(odtc_trainer *t, odtc_role role, int is_part) {
  const odtc_program *p = &t->program;
  for (size_t n = 0; n < p->argument_count; ++n) {
    const odtc_argument *a = p->arguments + n;
    const void *data = is_part ? t->parts[n] : t->arguments[n].data;
    size_t bytes = is_part ? odtc_part_bytes(p, n) : t->arguments[n].bytes;
    if (a->role == (uint32_t)role && a->flags & ODTC_BOUNDED &&
        check_bounds(t, a, t->arguments + n, data, bytes))
      return t->problem.code;
  }
  return ODTC_OK;
}

void odtc_copy_part(uint8_t *whole, uint8_t *part, size_t part_bytes, size_t groups, uint32_t parts,
                    uint32_t number, int to_part) {
  size_t run = part_bytes / groups;
  for (size_t group = 0; group < groups; ++group) {
    uint8_t *in_whole = whole + (group * parts + number) * run, *in_part = part + group * run;
    if (to_part)
      memcpy(in_part, in_whole, run);
    else
      memcpy(in_whole, in_part, run);
  }
}

void odtc_take_part(odtc_trainer *t, uint32_t number) {
  const odtc_program *p = &t->program;
  uint32_t parts = p->head->micro_batches;
  if (parts == 1) return;
  for (size_t n = 0; n < p->argument_count; ++n) {
    uint32_t groups = p->arguments[n].groups;
    if (groups)
      odtc_copy_part(t->arguments[n].data, t->parts[n], odtc_part_bytes(p, n), groups, parts,
                     number, 1);
  }
}
