/* Several steps of one call. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "odtc_gpu.h"
#include "steps.h"
#include "trainer.h"

/* What the steps of a call are fed, and how far it was read. */
typedef struct {
  odtc_trainer *trainer;
  const char *at;      /* of the next step */
  const void **direct; /* for each tensor, where a GPU takes it from in place of its memory; or NULL */
  size_t left;         /* steps that are not fed yet */
  int is_fed;          /* the next one is */
} feeding;

static int is_fed(const odtc_tensor *tensor) {
  return tensor->role == ODTC_INPUT || tensor->role == ODTC_LABEL;
}

/* Bytes of all inputs and labels of a step. */
static size_t fed_bytes(const odtc_trainer *t) {
  const odtc_tensor *tensor;
  size_t bytes = 0;
  for (size_t n = 0; (tensor = odtc_tensor_at(t, n)); ++n)
    if (is_fed(tensor)) bytes += tensor->bytes;
  return bytes;
}

/* Gives the next step's tensors what they are fed. */
static void write_next(feeding *f) {
  const odtc_tensor *tensor;
  const char *from = f->at;
  for (size_t n = 0; (tensor = odtc_tensor_at(f->trainer, n)); ++n) {
    if (!is_fed(tensor)) continue;
    memcpy(tensor->data, from, tensor->bytes);
    from += tensor->bytes;
  }
}

/* The same for a GPU, which takes from the message what need not be checked in memory. Whether it has it. */
static int send_directly(feeding *f) {
  const odtc_tensor *tensor;
  const char *from = f->at;
  for (size_t n = 0; (tensor = odtc_tensor_at(f->trainer, n)); ++n) {
    if (!is_fed(tensor)) continue;
    f->direct[n] = f->trainer->program.arguments[n].flags & ODTC_BOUNDED ? NULL : from;
    if (!f->direct[n]) memcpy(tensor->data, from, tensor->bytes);
    from += tensor->bytes;
  }
  return odtc_send_next_from(f->trainer, f->direct);
}

/* While a GPU computes a step: what the next one is fed travels. */
static void send_next(void *with) {
  feeding *f = with;
  if (!f->left) return;
  if (!send_directly(f)) {
    write_next(f);
    odtc_send_next(f->trainer);
  }
  f->is_fed = 1;
}

static odtc_code take_next(feeding *f, float rate) {
  if (!f->is_fed) write_next(f);
  f->is_fed = 0;
  f->at += fed_bytes(f->trainer);
  --f->left;
  odtc_code code = odtc_step(f->trainer, rate, NULL);
  return code == ODTC_NOT_FINITE ? ODTC_OK : code;
}

/* Takes steps until one fails, and notes the loss of each; returns behind the last one. */
static uint8_t *take_all(feeding *f, const char *rates, uint8_t *losses, odtc_code *code) {
  odtc_while_waiting(f->trainer, send_next, f);
  for (; f->left; losses += sizeof f->trainer->loss, rates += sizeof(float)) {
    float rate;
    memcpy(&rate, rates, sizeof rate);
    if ((*code = take_next(f, rate))) break;
    memcpy(losses, &f->trainer->loss, sizeof f->trainer->loss); /* whose mark the client reads */
  }
  odtc_while_waiting(f->trainer, NULL, NULL);
  odtc_drop_next(f->trainer); /* of a step that failed before it began */
  return losses;
}

/* Whether what came is that of so many steps; a failure if not. */
static int is_whole(odtc_session *s, const odtc_trainer *t, size_t count, const odtc_value *rates,
                    const odtc_value *fed) {
  if (count && !(rates->count % sizeof(float)) && fed->count / count == fed_bytes(t) && !(fed->count % count))
    return 1;
  odtc_refuse(s, "a step is fed %zu bytes, and %zu bytes came for %zu steps", fed_bytes(t), fed->count, count);
  return 0;
}

void odtc_take_steps(odtc_session *s, const odtc_value *v, odtc_result *result) {
  odtc_trainer *t = odtc_trainer_of(s, v);
  const size_t count = v[2].count / sizeof(float);
  odtc_code code = ODTC_OK;
  uint32_t head[2];
  if (!t || !is_whole(s, t, count, v + 2, v + 3)) return;
  if (odtc_steps(t) != v[1].number && !odtc_is_well(s, t, odtc_set_steps(t, v[1].number))) return;
  feeding f = {.trainer = t, .at = v[3].bytes, .left = count};
  f.direct = calloc(t->program.argument_count + 1, sizeof *f.direct);
  uint8_t *answer = malloc(sizeof head + count * sizeof(double) + sizeof t->problem.text);
  if (!answer || !f.direct) {
    free(f.direct);
    free(answer);
    odtc_refuse(s, "odtc %d: there is no memory for the losses", (int)ODTC_NO_MEMORY);
    return;
  }
  uint8_t *at = answer + sizeof head, *end = take_all(&f, v[2].bytes, at, &code);
  head[0] = (uint32_t)((size_t)(end - at) / sizeof(double)), head[1] = code;
  memcpy(answer, head, sizeof head);
  if (code) end = (uint8_t *)stpcpy((char *)end, odtc_message(t));
  free(f.direct);
  *result = (odtc_result){.type = VALUE_BYTES, .bytes = answer, .count = (size_t)(end - answer), .owned = answer};
}
