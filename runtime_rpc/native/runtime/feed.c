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

/* Checks some bytes of a tensor, which begin after so many others. */
static odtc_code check_bounds(odtc_trainer *t, const odtc_argument *a, const odtc_tensor *tensor,
                              const void *data, size_t offset, size_t bytes) {
  size_t size = (size_t)tensor->bits / 8;
  for (size_t n = offset / size; n < (offset + bytes) / size; ++n) {
    int64_t value = integer_at(tensor, data, n);
    if (value >= a->least && value <= a->most) continue;
    if (a->flags & ODTC_IGNORES && value == a->ignored) continue;
    return odtc_fail(&t->problem, ODTC_DATA, "element %zu of %.100s is %lld, outside [%lld, %lld]",
                     n, tensor->name, (long long)value, (long long)a->least, (long long)a->most);
  }
  return ODTC_OK;
}

odtc_code odtc_check_fed(odtc_trainer *t, odtc_role role, uint32_t samples) {
  const odtc_program *p = &t->program;
  for (size_t n = 0; n < p->argument_count; ++n) {
    const odtc_argument *a = p->arguments + n;
    if (a->role != (uint32_t)role || !(a->flags & ODTC_BOUNDED)) continue;
    size_t groups = samples && a->groups ? a->groups : 1;
    size_t bytes = samples ? odtc_sample_bytes(p, n, samples) / groups : odtc_part_bytes(p, n);
    const void *data = samples ? t->arguments[n].data : t->parts[n];
    for (size_t group = 0; group < groups; ++group)
      if (check_bounds(t, a, t->arguments + n, data, group * (a->bytes / groups), bytes))
        return t->problem.code;
  }
  return ODTC_OK;
}

void odtc_copy_samples(odtc_samples to, odtc_samples from, size_t groups, size_t bytes, uint32_t count) {
  for (size_t group = 0; group < groups; ++group)
    memcpy(to.data + (group * to.of + to.first) * bytes,
           from.data + (group * from.of + from.first) * bytes, count * bytes);
}

void odtc_take_part(odtc_trainer *t, uint32_t number) {
  const odtc_program *p = &t->program;
  uint32_t batch = p->head->samples, count = batch / p->head->micro_batches;
  if (count == batch) return;
  for (size_t n = 0; n < p->argument_count; ++n) {
    const odtc_argument *a = p->arguments + n;
    if (!a->groups) continue;
    odtc_samples whole = {t->arguments[n].data, number * count, batch}, part = {t->parts[n], 0, count};
    odtc_copy_samples(part, whole, a->groups, a->bytes / a->groups / batch, count);
  }
}
