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
  const uint8_t *fed;  /* for each tensor, whether a step is fed it */
  const void **direct; /* for each tensor, where a GPU takes it from in place of its memory; or NULL */
  const char *lengths; /* of each step that is not fed yet, int64; NULL: all are as long as the trainer's are now */
  size_t left;         /* steps that are not fed yet */
  int is_fed;          /* the next one is */
  int over_features;   /* it goes on from features, in place of inputs */
} feeding;

/* Bytes of all that a step is fed. */
static size_t fed_bytes(const odtc_trainer *t, const uint8_t *fed) {
  const odtc_tensor *tensor;
  size_t bytes = 0;
  for (size_t n = 0; (tensor = odtc_tensor_at(t, n)); ++n)
    if (fed[n]) bytes += tensor->bytes;
  return bytes;
}

/* Takes what follows at the length of a step, so many behind the next one. */
static odtc_code take_length(feeding *f, size_t number) {
  int64_t length;
  if (!f->lengths) return ODTC_OK;
  memcpy(&length, f->lengths + number * sizeof length, sizeof length);
  return odtc_set_length(f->trainer, (uint64_t)length);
}

/* Gives the next step's tensors what they are fed. */
static void write_next(feeding *f) {
  const odtc_tensor *tensor;
  const char *from = f->at;
  for (size_t n = 0; (tensor = odtc_tensor_at(f->trainer, n)); ++n) {
    if (!f->fed[n]) continue;
    memcpy(tensor->data, from, tensor->bytes);
    from += tensor->bytes;
  }
}

/* The same for a GPU, which takes from the message what need not be checked in memory. Whether it has it. */
static int send_directly(feeding *f) {
  const odtc_tensor *tensor;
  const char *from = f->at;
  for (size_t n = 0; (tensor = odtc_tensor_at(f->trainer, n)); ++n) {
    if (!f->fed[n]) continue;
    f->direct[n] = f->trainer->program.arguments[n].flags & ODTC_BOUNDED ? NULL : from;
    if (!f->direct[n]) memcpy(tensor->data, from, tensor->bytes);
    from += tensor->bytes;
  }
  return odtc_send_next_from(f->trainer, f->direct);
}

/* While a GPU computes a step: what the next one is fed travels. */
static void send_next(void *with) {
  feeding *f = with;
  if (!f->left || take_length(f, 0)) return;
  if (!send_directly(f)) {
    write_next(f);
    odtc_send_next(f->trainer);
  }
  f->is_fed = 1;
}

static odtc_code take_next(feeding *f, float rate) {
  if (!f->is_fed) {
    if (take_length(f, 0)) return f->trainer->problem.code;
    write_next(f);
  }
  f->is_fed = 0;
  f->at += fed_bytes(f->trainer, f->fed);
  if (f->lengths) f->lengths += sizeof(int64_t);
  --f->left;
  odtc_code code = f->over_features ? odtc_step_over_features(f->trainer, rate, NULL)
                                    : odtc_step(f->trainer, rate, NULL);
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
static int is_whole(odtc_session *s, feeding *f, const odtc_value *rates, const odtc_value *came) {
  const size_t count = f->left;
  size_t left = came->count, bytes = 0, n = 0;
  for (; n < count; ++n, left -= bytes) {
    if (!odtc_is_well(s, f->trainer, take_length(f, n))) return 0;
    bytes = fed_bytes(f->trainer, f->fed);
    if (bytes > left) break;
  }
  if (count && n == count && !left && !(rates->count % sizeof(float))) return 1;
  odtc_refuse(s, "a step is fed %zu bytes%s, and %zu bytes came for %zu steps", fed_bytes(f->trainer, f->fed),
              f->lengths ? ", more or fewer at other lengths" : "", came->count, count);
  return 0;
}

/* Takes the steps of a call that is fed what is marked. */
static void take(odtc_session *s, feeding *f, const odtc_value *first, const odtc_value *rates,
                 const odtc_value *came, odtc_result *result) {
  odtc_trainer *t = f->trainer;
  odtc_code code = ODTC_OK;
  uint32_t head[2];
  f->at = came->bytes, f->left = rates->count / sizeof(float);
  if (!is_whole(s, f, rates, came)) return;
  if (odtc_steps(t) != first->number && !odtc_is_well(s, t, odtc_set_steps(t, first->number))) return;
  f->direct = calloc(t->program.argument_count + 1, sizeof *f->direct);
  uint8_t *answer = malloc(sizeof head + f->left * sizeof(double) + sizeof t->problem.text);
  if (!answer || !f->direct) {
    free(f->direct);
    free(answer);
    odtc_refuse(s, "odtc %d: there is no memory for the losses", (int)ODTC_NO_MEMORY);
    return;
  }
  uint8_t *at = answer + sizeof head, *end = take_all(f, rates->bytes, at, &code);
  head[0] = (uint32_t)((size_t)(end - at) / sizeof(double)), head[1] = code;
  memcpy(answer, head, sizeof head);
  if (code) end = (uint8_t *)stpcpy((char *)end, odtc_message(t));
  free(f->direct);
  *result = (odtc_result){.type = VALUE_BYTES, .bytes = answer, .count = (size_t)(end - answer), .owned = answer};
}

/* A mark for each tensor, all of them 0; NULL, and a failure, where there is no memory. */
static uint8_t *no_marks(odtc_session *s, const odtc_trainer *t) {
  uint8_t *fed = calloc(t->program.argument_count + 1, 1);
  if (!fed) odtc_refuse(s, "odtc %d: there is no memory for a step", (int)ODTC_NO_MEMORY);
  return fed;
}

/* Marks of all inputs and labels. */
static uint8_t *marks_of_fed(odtc_session *s, const odtc_trainer *t) {
  uint8_t *fed = no_marks(s, t);
  const odtc_tensor *tensor;
  for (size_t n = 0; fed && (tensor = odtc_tensor_at(t, n)); ++n)
    fed[n] = tensor->role == ODTC_INPUT || tensor->role == ODTC_LABEL;
  return fed;
}

void odtc_take_steps(odtc_session *s, const odtc_value *v, odtc_result *result) {
  odtc_trainer *t = odtc_trainer_of(s, v);
  uint8_t *fed = t ? marks_of_fed(s, t) : NULL;
  if (!fed) return;
  take(s, &(feeding){.trainer = t, .fed = fed}, v + 1, v + 2, v + 3, result);
  free(fed);
}

void odtc_take_steps_at_lengths(odtc_session *s, const odtc_value *v, odtc_result *result) {
  odtc_trainer *t = odtc_trainer_of(s, v);
  uint8_t *fed = t ? marks_of_fed(s, t) : NULL;
  if (!fed) return;
  if (v[3].count / sizeof(int64_t) == v[2].count / sizeof(float) && !(v[3].count % sizeof(int64_t)))
    take(s, &(feeding){.trainer = t, .fed = fed, .lengths = v[3].bytes}, v + 1, v + 2, v + 4, result);
  else
    odtc_refuse(s, "%zu bytes cannot be the lengths of %zu steps", v[3].count, v[2].count / sizeof(float));
  free(fed);
}

/* Marks the tensors of some numbers, int32; whether each is one that a step is fed. */
static int mark(odtc_session *s, const odtc_trainer *t, const odtc_value *numbers, uint8_t *fed) {
  for (size_t n = 0; n + sizeof(int32_t) <= numbers->count; n += sizeof(int32_t)) {
    int32_t number;
    memcpy(&number, (const char *)numbers->bytes + n, sizeof number);
    const odtc_tensor *tensor = number < 0 ? NULL : odtc_tensor_at(t, (size_t)number);
    if (!tensor || (tensor->role != ODTC_INPUT && tensor->role != ODTC_LABEL && tensor->role != ODTC_FEATURES)) {
      odtc_refuse(s, "a step is not fed tensor %ld", (long)number);
      return 0;
    }
    fed[number] = 1;
  }
  return 1;
}

void odtc_take_steps_over_features(odtc_session *s, const odtc_value *v, odtc_result *result) {
  odtc_trainer *t = odtc_trainer_of(s, v);
  uint8_t *fed = t ? no_marks(s, t) : NULL;
  if (!fed) return;
  if (mark(s, t, v + 3, fed))
    take(s, &(feeding){.trainer = t, .fed = fed, .over_features = 1}, v + 1, v + 2, v + 4, result);
  free(fed);
}
