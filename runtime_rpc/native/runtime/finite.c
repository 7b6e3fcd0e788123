/* What a loss that is not finite means. A step marks what it wrote by a NaN with the loss inside: see
   odtc/core/ir/marked_loss.py, whose numbers these are. */
#include <math.h>
#include <string.h>

#include "trainer.h"

static const uint32_t PAYLOAD = 0x003FFFFF;
enum { DROPPED = 10 };
/* Below this a dynamic loss scale does not sink, so that it is not what overflowed. */
static const float LEAST_SCALE = 0x1p-14f;

/* Whether a loss is marked, with the one inside. */
static int is_marked(double loss, float *inside) {
  float narrow = (float)loss;
  uint32_t bits;
  if (!isnan(loss)) return 0;
  memcpy(&bits, &narrow, sizeof bits);
  bits = (bits & PAYLOAD) << DROPPED;
  if (!bits) return 0;
  bits |= 1u << (DROPPED - 1);
  memcpy(inside, &bits, sizeof bits);
  return isfinite(*inside);
}

static int may_skip(odtc_trainer *t) {
  const odtc_program_head *head = t->program.head;
  if (head->flags & ODTC_SKIPS) return 1;
  return head->scale != ODTC_NONE && !odtc_fetch_argument(t, head->scale) &&
         *(float *)t->arguments[head->scale].data >= LEAST_SCALE;
}

/* The first tensor of float32 that is not finite, among those of roles; NULL where all are. */
static const odtc_tensor *find_first(odtc_trainer *t, unsigned roles, size_t *wrong,
                                     float *such) {
  for (size_t n = 0; n < t->program.argument_count; ++n) {
    const odtc_tensor *tensor = t->arguments + n;
    if (!(roles >> tensor->role & 1) || tensor->code != 2 || tensor->bits != 32) continue;
    const float *values = tensor->data;
    *wrong = 0;
    if (odtc_fetch_argument(t, n)) return NULL;
    for (size_t i = 0; i < tensor->bytes / sizeof *values; ++i)
      if (!isfinite(values[i]) && !(*wrong)++) *such = values[i];
    odtc_leave_argument(t, n);
    if (*wrong) return tensor;
  }
  return NULL;
}

odtc_code odtc_check_finite(odtc_trainer *t, double *told, float rate) {
  static const unsigned FED = 1u << ODTC_INPUT | 1u << ODTC_LABEL;
  static const unsigned KEPT =
      1u << ODTC_PARAMETER | 1u << ODTC_STATISTIC | 1u << ODTC_STATE | 1u << ODTC_AVERAGE;
  const double loss = *told;
  float inside, such = 0;
  size_t wrong = 0;
  if (isfinite(loss)) return ODTC_OK;
  if (is_marked(loss, &inside))
    *told = (double)inside;
  else if (may_skip(t))
    return ODTC_OK;
  const odtc_tensor *first = find_first(t, FED, &wrong, &such);
  if (!first) first = find_first(t, KEPT, &wrong, &such);
  if (!first)
    return odtc_fail(&t->problem, ODTC_NOT_FINITE, "the loss is %g at step %lld (learning rate %g)",
                     *told, (long long)t->steps, (double)rate);
  return odtc_fail(&t->problem, ODTC_NOT_FINITE,
                   "%zu of %zu elements of %.100s are %s at step %lld (loss %.3g, learning rate %g)",
                   wrong, first->bytes / sizeof(float), first->name,
                   isnan(such) ? "nan" : such < 0 ? "-inf" : "inf", (long long)t->steps,
                   *told, (double)rate);
}
