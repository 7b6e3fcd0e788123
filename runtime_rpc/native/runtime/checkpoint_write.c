/* The same trainer gives the same bytes as Python's. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint.h"
#include "new_file.h"
#include "text.h"

void odtc_hash_text(const uint8_t *data, size_t bytes, char text[ODTC_HEX_BYTES]) {
  uint8_t digest[ODTC_SHA256_BYTES];
  odtc_sha256(data, bytes, digest);
  odtc_digest_text(digest, text);
}

int odtc_is_kept(const odtc_program *p, size_t argument) {
  uint32_t role = p->arguments[argument].role;
  return role >= ODTC_PARAMETER && role <= ODTC_AVERAGE;
}

int odtc_is_saved(const odtc_program *p, size_t argument, int64_t steps) {
  int is_sum = (p->arguments[argument].flags & ODTC_ACCUMULATOR) != 0;
  return odtc_is_kept(p, argument) && (!is_sum || steps % p->head->accumulate);
}

int odtc_is_of_adapter(const odtc_program *p, size_t argument, int64_t steps) {
  return odtc_is_saved(p, argument, steps) && p->arguments[argument].role != ODTC_FROZEN;
}

/* Which arguments a file holds. */
typedef int is_held(const odtc_program *p, size_t argument, int64_t steps);

/* The order of tensors in the file, in which each is aligned: larger elements first, then by name. */
static int compare(const void *one, const void *other) {
  const odtc_tensor *a = *(const odtc_tensor *const *)one, *b = *(const odtc_tensor *const *)other;
  return a->bits != b->bits ? b->bits - a->bits : strcmp(a->name, b->name);
}

/* What is saved, in order, with NULL after it; NULL where there is no memory. */
static const odtc_tensor **saved(const odtc_trainer *t, is_held *is_in) {
  size_t count = 0;
  const odtc_tensor **found = calloc(t->program.argument_count + 1, sizeof *found);
  for (size_t n = 0; found && n < t->program.argument_count; ++n)
    if (is_in(&t->program, n, t->steps)) found[count++] = t->arguments + n;
  if (found) qsort(found, count, sizeof *found, compare);
  return found;
}

/* What training made has to be finite. Frozen weights are what the model has; a loss scale that was too
   large overflows sums of gradients, and the update is left out then. */
static odtc_code check_finite(odtc_trainer *t, const char *path) {
  const odtc_program *p = &t->program;
  for (size_t n = 0; n < p->argument_count; ++n) {
    const odtc_argument *a = p->arguments + n;
    int may_overflow = a->flags & ODTC_ACCUMULATOR && p->head->scale != ODTC_NONE;
    if (!odtc_is_saved(p, n, t->steps) || a->role == ODTC_FROZEN || may_overflow) continue;
    if (a->code != 2 || a->bits != 32) continue;
    const float *values = t->arguments[n].data;
    if (odtc_fetch_argument(t, n)) return t->problem.code;
    for (size_t i = 0; i < a->bytes / sizeof *values; ++i)
      if (!isfinite(values[i]))
        return odtc_fail(&t->problem, ODTC_NOT_FINITE, "%.100s is not finite: %.200s is not written",
                         t->arguments[n].name, path);
    odtc_leave_argument(t, n);
  }
  return ODTC_OK;
}

static const char *dtype_name(const odtc_tensor *tensor, char name[8]) {
  static const char *const KINDS[] = {"I", "U", "F"};
  if (tensor->code > 2) return "BOOL";
  snprintf(name, 8, "%s%d", KINDS[tensor->code], tensor->bits);
  return name;
}

static void put_field(odtc_text *text, const char *name, const char *value) {
  odtc_text_put_string(text, name);
  odtc_text_put(text, ":");
  odtc_text_put_string(text, value);
}

static const char *fact(const odtc_trainer *t, const char *name) {
  const char *found = odtc_fact(t, name);
  return found ? found : "";
}

static void put_metadata(odtc_text *head, const odtc_trainer *t, const char *format, const char *hashes) {
  char number[32];
  odtc_text_put(head, "\"__metadata__\":{");
  put_field(head, "format", format);
  odtc_text_put(head, ",");
  put_field(head, "model_sha256", fact(t, "model_sha256"));
  if (!strcmp(format, ODTC_ADAPTER_FORMAT) && t->base[0]) {
    odtc_text_put(head, ",");
    put_field(head, ODTC_BASE, t->base);
  }
  snprintf(number, sizeof number, "%lld", (long long)t->steps);
  odtc_text_put(head, ",");
  put_field(head, "step", number);
  odtc_text_put(head, ",");
  put_field(head, "optimizer", fact(t, "optimizer"));
  odtc_text_put(head, ",\"accumulate\":\"%u\",\"micro_batches\":\"%u\",",
                t->program.head->accumulate, t->program.head->micro_batches);
  put_field(head, "run", fact(t, "run"));
  odtc_text_put(head, ",");
  put_field(head, "hashes", hashes);
  odtc_text_put(head, ",\"sha256\":\"%064d\"}", 0);
}

static size_t number_of(const odtc_trainer *t, const odtc_tensor *tensor) {
  return (size_t)(tensor - t->arguments);
}

/* The header in JSON, filled up to a multiple of eight, with its own hash. */
static odtc_code put_header(odtc_text *head, odtc_trainer *t, const char *format,
                            const odtc_tensor **tensors) {
  odtc_text hashes = {0};
  char hash[ODTC_HEX_BYTES], dtype[8];
  size_t at = 0;
  for (const odtc_tensor **each = tensors; *each; ++each) {
    if (odtc_fetch_argument(t, number_of(t, *each))) {
      odtc_text_end(&hashes);
      return t->problem.code;
    }
    odtc_hash_text((*each)->data, (*each)->bytes, hash);
    odtc_leave_argument(t, number_of(t, *each));
    odtc_text_put(&hashes, each == tensors ? "{" : ", ");
    odtc_text_put_string(&hashes, (*each)->name);
    odtc_text_put(&hashes, ": \"%s\"", hash);
  }
  odtc_text_put(&hashes, *tensors ? "}" : "{}");
  odtc_text_put(head, "LLLLLLLL{");
  put_metadata(head, t, format, hashes.failed ? "" : hashes.at);
  head->failed |= hashes.failed;
  odtc_text_end(&hashes);
  for (; *tensors; ++tensors) {
    odtc_text_put(head, ",");
    odtc_text_put_string(head, (*tensors)->name);
    odtc_text_put(head, ":{\"dtype\":\"%s\",\"shape\":[", dtype_name(*tensors, dtype));
    for (int n = 0; n < (*tensors)->rank; ++n)
      odtc_text_put(head, n ? ",%lld" : "%lld", (long long)(*tensors)->shape[n]);
    odtc_text_put(head, "],\"data_offsets\":[%zu,%zu]}", at, at + (*tensors)->bytes);
    at += (*tensors)->bytes;
  }
  odtc_text_put(head, "}");
  while (!head->failed && head->used % 8) odtc_text_put(head, " ");
  if (head->failed) return ODTC_OK;
  uint64_t length = head->used - 8;
  memcpy(head->at, &length, sizeof length);
  odtc_hash_text((const uint8_t *)head->at, head->used, hash);
  /* In JSON's strings quotes have a backslash in front: there is no other such text. */
  char field[] = "\"sha256\":\"";
  for (size_t n = 0; n + sizeof field < head->used; ++n)
    if (!memcmp(head->at + n, field, sizeof field - 1)) {
      memcpy(head->at + n + sizeof field - 1, hash, ODTC_HEX_BYTES - 1);
      break;
    }
  return ODTC_OK;
}

static odtc_code write_file(odtc_trainer *t, const char *path, const odtc_text *head,
                            const odtc_tensor **tensors) {
  odtc_new_file file;
  odtc_begin_file(&file, path);
  odtc_add_to_file(&file, head->at, head->used);
  odtc_problem other = {0};
  odtc_code code = ODTC_OK;
  for (; *tensors && !code; ++tensors) {
    if ((code = odtc_fetch_argument(t, number_of(t, *tensors)))) file.error = EINTR; /* of which nobody is told */
    odtc_add_to_file(&file, (*tensors)->data, (*tensors)->bytes);
    odtc_leave_argument(t, number_of(t, *tensors));
  }
  odtc_code ended = odtc_end_file(&file, path, code ? &other : &t->problem);
  return code ? code : ended;
}

static odtc_code no_memory(odtc_trainer *t, const char *what) {
  return odtc_fail(&t->problem, ODTC_NO_MEMORY, "there is no memory for %s", what);
}

/* Makes the header of a checkpoint for a path, and lists its tensors. */
static odtc_code prepare(odtc_trainer *t, const char *path, is_held *is_in, odtc_text *head,
                         const odtc_tensor ***tensors) {
  if (odtc_check_open(t) || odtc_check_given(t, path, "a path")) return t->problem.code;
  if (t->torn)
    return odtc_fail(&t->problem, ODTC_TORN, "the weights are torn, and no checkpoint is written");
  if (check_finite(t, path)) return t->problem.code;
  const char *format = is_in == odtc_is_saved ? ODTC_CHECKPOINT_FORMAT : ODTC_ADAPTER_FORMAT;
  if (is_in == odtc_is_of_adapter && odtc_know_base(t)) return t->problem.code;
  *tensors = saved(t, is_in);
  if (*tensors && put_header(head, t, format, *tensors)) return t->problem.code;
  return !*tensors || head->failed ? no_memory(t, "a header") : ODTC_OK;
}

static odtc_code save(odtc_trainer *t, const char *path, is_held *is_in) {
  odtc_text head = {0};
  const odtc_tensor **tensors = NULL;
  odtc_code code = prepare(t, path, is_in, &head, &tensors);
  if (!code) code = write_file(t, path, &head, tensors);
  odtc_text_end(&head);
  free(tensors);
  return code;
}

odtc_code odtc_save(odtc_trainer *t, const char *path) { return save(t, path, odtc_is_saved); }

odtc_code odtc_save_adapter(odtc_trainer *t, const char *path) {
  return save(t, path, odtc_is_of_adapter);
}

odtc_code odtc_save_bytes(odtc_trainer *t, void **bytes, size_t *count) {
  odtc_text head = {0};
  const odtc_tensor **tensors = NULL;
  if (odtc_check_given(t, bytes, "a place for the bytes") ||
      odtc_check_given(t, count, "a place for their number"))
    return t->problem.code;
  *bytes = NULL, *count = 0;
  odtc_code code = prepare(t, "the checkpoint", odtc_is_saved, &head, &tensors);
  if (!code) {
    *count = head.used;
    for (const odtc_tensor **each = tensors; *each; ++each) *count += (*each)->bytes;
    uint8_t *at = *bytes = malloc(*count);
    if (!at) code = no_memory(t, "a checkpoint");
    if (at) memcpy(at, head.at, head.used), at += head.used;
    for (const odtc_tensor **each = tensors; at && *each && !code; at += (*each++)->bytes) {
      code = odtc_fetch_argument(t, number_of(t, *each));
      if ((*each)->bytes && !code) memcpy(at, (*each)->data, (*each)->bytes);
      odtc_leave_argument(t, number_of(t, *each));
    }
    if (code) free(*bytes), *bytes = NULL, *count = 0;
  }
  odtc_text_end(&head);
  free(tensors);
  return code;
}
