/* Everything of a checkpoint is looked at before anything is taken up. */
#include <stdlib.h>
#include <string.h>

#include "checkpoint.h"
#include "json.h"
#include "tensor_file.h"

/* What is known of a file so far. */
typedef struct {
  odtc_trainer *trainer;
  char *hashes; /* the text of the metadata */
  odtc_json next; /* in it, after the last hash that was looked up */
  char *strings, own[ODTC_HEX_BYTES], base[ODTC_HEX_BYTES];
  int64_t steps, micro_batches;
  int without_base; /* it is of an adapter alone */
  int seen, is_mapped; /* where pages of the file are left as they are read */
  const uint8_t **data; /* for each argument, where it lies in the file */
} loading;

enum { FORMAT = 1, MODEL = 2, STEP = 4, OPTIMIZER = 8, ACCUMULATE = 16, PARTS = 32, HASHES = 64, OWN = 128 };

static int64_t number_of(const char *text) {
  odtc_json json = {text, text + strlen(text), NULL};
  uint64_t value = odtc_json_natural(&json);
  return json.at == json.end && json.at ? (int64_t)value : -1;
}

static odtc_code other(odtc_problem *problem, const char *what, const char *found,
                       const char *wanted) {
  return odtc_fail(problem, ODTC_MISFIT, "the checkpoint was written with %s %.100s; the step has "
                   "%.100s", what, found, wanted ? wanted : "none");
}

static odtc_code compare_fact(loading *l, int seen, const char *name, const char *found,
                              odtc_problem *problem) {
  const char *wanted = odtc_fact(l->trainer, name);
  l->seen |= seen;
  return wanted && !strcmp(wanted, found) ? ODTC_OK : other(problem, name, found, wanted);
}

static odtc_code hear(void *with, const char *name, const char *text, odtc_problem *problem) {
  loading *l = with;
  const odtc_program_head *head = l->trainer->program.head;
  if (!strcmp(name, "format")) {
    l->seen |= FORMAT;
    l->without_base = !strcmp(text, ODTC_ADAPTER_FORMAT);
    if (!l->without_base && strcmp(text, ODTC_CHECKPOINT_FORMAT))
      return odtc_fail(problem, ODTC_UNSUPPORTED, "the file is not a checkpoint of format "
                       ODTC_CHECKPOINT_FORMAT ", but of %.100s", text);
  } else if (!strcmp(name, "model_sha256")) {
    return compare_fact(l, MODEL, name, text, problem);
  } else if (!strcmp(name, "optimizer")) {
    return compare_fact(l, OPTIMIZER, name, text, problem);
  } else if (!strcmp(name, "accumulate")) {
    l->seen |= ACCUMULATE;
    if (number_of(text) != head->accumulate)
      return odtc_fail(problem, ODTC_MISFIT, "the checkpoint was written with accumulate %.100s; the "
                       "step has %u", text, head->accumulate);
  } else if (!strcmp(name, ODTC_BASE) && strlen(text) == ODTC_HEX_BYTES - 1) {
    memcpy(l->base, text, ODTC_HEX_BYTES);
  } else if (!strcmp(name, "step")) {
    l->seen |= STEP, l->steps = number_of(text);
  } else if (!strcmp(name, "micro_batches")) {
    l->seen |= PARTS, l->micro_batches = number_of(text);
  } else if (!strcmp(name, "hashes") && !l->hashes) {
    size_t bytes = strlen(text) + 1;
    l->hashes = malloc(bytes), l->strings = malloc(bytes);
    if (!l->hashes || !l->strings)
      return odtc_fail(problem, ODTC_NO_MEMORY, "there is no memory for hashes");
    l->seen |= HASHES;
    memcpy(l->hashes, text, bytes);
  } else if (!strcmp(name, "sha256") && strlen(text) == ODTC_HEX_BYTES - 1) {
    l->seen |= OWN;
    memcpy(l->own, text, ODTC_HEX_BYTES);
  }
  return ODTC_OK;
}

/* A name and its hash, after the last; whether there is one. */
static int next_hash(loading *l, const char **name, const char **hash) {
  l->next.strings = l->strings;
  if (!odtc_json_is(&l->next, ',')) odtc_json_expect(&l->next, '{');
  *name = odtc_json_string(&l->next);
  odtc_json_expect(&l->next, ':');
  *hash = odtc_json_string(&l->next);
  return *name && *hash;
}

static int is_wanted(const loading *l, size_t argument) {
  const odtc_program *p = &l->trainer->program;
  return l->without_base ? odtc_is_of_adapter(p, argument, l->steps) : odtc_is_saved(p, argument, l->steps);
}

/* Hashes come in the order of tensors, as every writer has them: no file can make this slow. */
static odtc_code check_entry(void *with, const odtc_entry *entry, odtc_problem *problem) {
  loading *l = with;
  const odtc_trainer *t = l->trainer;
  const char *name, *wanted;
  char hash[ODTC_HEX_BYTES];
  odtc_hash_text(entry->data, entry->bytes, hash);
  if (l->is_mapped) odtc_leave_pages(entry->data, entry->bytes);
  if (!next_hash(l, &name, &wanted) || strcmp(name, entry->name) || strcmp(wanted, hash))
    return odtc_fail(problem, ODTC_DAMAGED,
                     "tensor %.100s does not match its recorded hash", entry->name);
  for (size_t n = 0; n < t->program.argument_count; ++n) {
    const odtc_tensor *own = t->arguments + n;
    if (!odtc_is_kept(&t->program, n) || strcmp(own->name, entry->name)) continue;
    if (l->without_base && own->role == ODTC_FROZEN) break;
    if (!is_wanted(l, n)) return ODTC_OK;
    if (l->data[n])
      return odtc_fail(problem, ODTC_DAMAGED, "the checkpoint has %.100s twice", own->name);
    if (!odtc_entry_fits(own, entry)) return odtc_entry_misfit(own, entry, problem);
    l->data[n] = entry->data;
    return ODTC_OK;
  }
  return odtc_fail(problem, ODTC_MISFIT, "the checkpoint does not fit the step, which has no %.100s",
                   entry->name);
}

static odtc_code take_nothing(void *with, const odtc_entry *entry, odtc_problem *problem) {
  (void)with, (void)entry, (void)problem;
  return ODTC_OK;
}

/* Whether the header has its own hash, which was made with zeros in its place. */
static odtc_code check_header(loading *l, odtc_pages file, odtc_problem *problem) {
  char field[sizeof "\"sha256\":\"" + ODTC_HEX_BYTES] = "\"sha256\":\"", hash[ODTC_HEX_BYTES];
  size_t before = strlen(field);
  uint64_t length;
  memcpy(&length, file.at, sizeof length); /* it was read before: it is within the file */
  size_t bytes = sizeof length + (size_t)length;
  uint8_t *head = malloc(bytes);
  if (!head) return odtc_fail(problem, ODTC_NO_MEMORY, "there is no memory for a header");
  memcpy(head, file.at, bytes);
  memcpy(field + before, l->own, ODTC_HEX_BYTES - 1);
  size_t whole = before + ODTC_HEX_BYTES - 1;
  for (size_t n = 0; n + whole <= bytes; ++n)
    if (!memcmp(head + n, field, whole)) memset(head + n + before, '0', ODTC_HEX_BYTES - 1);
  odtc_hash_text(head, bytes, hash);
  free(head);
  return strcmp(hash, l->own) ? odtc_fail(problem, ODTC_DAMAGED, "the header of the checkpoint does "
                                          "not match its recorded hash")
                              : ODTC_OK;
}

/* Whether an adapter is of the base that is there; files of an older odtc do not say it. */
static odtc_code check_base(loading *l, odtc_problem *problem) {
  odtc_trainer *t = l->trainer;
  if (!l->without_base || !l->base[0]) return ODTC_OK;
  if (odtc_know_base(t)) return problem->code;
  if (!strcmp(l->base, t->base)) return ODTC_OK;
  return odtc_fail(problem, ODTC_MISFIT, "the adapter was trained over another base: its hash is "
                   "%.16s; the frozen weights here have the hash %.16s", l->base,
                   t->base[0] ? t->base : "none");
}

static odtc_code check_file(loading *l, odtc_pages file, odtc_problem *problem) {
  odtc_trainer *t = l->trainer;
  int64_t most = INT32_MAX / (int64_t)t->program.head->micro_batches;
  if (odtc_tensor_file_read(file, (odtc_listener){take_nothing, hear, l}, problem))
    return problem->code;
  if (l->seen != 2 * OWN - 1)
    return odtc_fail(problem, ODTC_DAMAGED, "the file is not a checkpoint of odtc");
  if (check_header(l, file, problem)) return problem->code;
  if (l->steps < 0 || l->steps >= most || l->micro_batches < 1)
    return odtc_fail(problem, ODTC_DAMAGED, "the checkpoint is of a step that there cannot be");
  l->next = (odtc_json){l->hashes, l->hashes + strlen(l->hashes), l->strings};
  if (odtc_tensor_file_read(file, (odtc_listener){check_entry, NULL, l}, problem))
    return problem->code;
  for (size_t n = 0; n < t->program.argument_count; ++n)
    if (is_wanted(l, n) && !l->data[n])
      return odtc_fail(problem, ODTC_MISFIT, "the checkpoint does not fit the step: it has no %.100s",
                       t->arguments[n].name);
  return check_base(l, problem);
}

static odtc_code take_up(loading *l) {
  odtc_trainer *t = l->trainer;
  if (!l->without_base) odtc_forget_base(t);
  float factor = (float)((double)t->program.head->micro_batches / (double)l->micro_batches);
  for (size_t n = 0; n < t->program.argument_count; ++n) {
    odtc_tensor *tensor = t->arguments + n;
    if (!l->data[n]) continue;
    if (l->is_mapped) odtc_copy_out(tensor->data, l->data[n], tensor->bytes);
    if (!l->is_mapped) memcpy(tensor->data, l->data[n], tensor->bytes);
    /* Sums over other micro-batches, as those of this step would be. */
    int is_sum = (t->program.arguments[n].flags & ODTC_ACCUMULATOR) != 0;
    if (is_sum && factor != 1)
      for (size_t i = 0; i < tensor->bytes / sizeof(float); ++i) ((float *)tensor->data)[i] *= factor;
    if (odtc_send_argument(t, n)) {
      t->torn = 1;
      return t->problem.code;
    }
    odtc_leave_argument(t, n);
  }
  t->steps = l->steps;
  t->torn = 0;
  return ODTC_OK;
}

static odtc_code load(odtc_trainer *t, odtc_pages file, int is_mapped) {
  loading l = {.trainer = t, .is_mapped = is_mapped};
  l.data = calloc(t->program.argument_count + 1, sizeof *l.data);
  if (!l.data) return odtc_fail(&t->problem, ODTC_NO_MEMORY, "there is no memory for a checkpoint");
  odtc_code code = check_file(&l, file, &t->problem);
  if (!code) code = take_up(&l);
  free(l.hashes), free(l.strings), free(l.data);
  return code;
}

odtc_code odtc_load(odtc_trainer *t, const char *path) {
  odtc_pages file = {NULL, 0};
  if (odtc_check_open(t) || odtc_check_given(t, path, "a path") || odtc_map_file(path, &file, &t->problem)) return t->problem.code;
  odtc_code code = load(t, file, 1);
  if (code) odtc_name_file(&t->problem, path);
  odtc_unmap(&file);
  return code;
}

odtc_code odtc_load_bytes(odtc_trainer *t, const void *bytes, size_t count) {
  /* Nothing is written to it. */
  odtc_pages file = {(uint8_t *)(uintptr_t)bytes, count};
  if (odtc_check_open(t) || (count && odtc_check_given(t, bytes, "a checkpoint"))) return t->problem.code;
  return load(t, file, 0);
}
