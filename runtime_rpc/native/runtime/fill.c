/* The memory of a trainer, and the values that it starts from. */
#include <stdlib.h>
#include <string.h>

#include "beside.h"
#include "sets.h"
#include "tensor_file.h"
#include "trainer.h"

static int is_weight(uint32_t role) {
  return role == ODTC_PARAMETER || role == ODTC_FROZEN || role == ODTC_STATISTIC;
}

static int has_parts(const odtc_program *p, const odtc_argument *a) {
  return a->groups && p->head->micro_batches > 1;
}

/* Gives out a piece of memory after the last one; only counts where there is none yet. */
static uint8_t *taken(uint8_t **at, size_t *total, size_t bytes) {
  uint8_t *piece = *at;
  *total += odtc_aligned(bytes);
  if (piece) *at += odtc_aligned(bytes);
  return piece;
}

/* Bytes that the largest result has, at any length. */
static size_t result_bytes(const odtc_program *p) {
  size_t most = 0;
  for (size_t n = 0; n < p->every_function_count; ++n)
    if (p->every_function[n].result_bytes > most) most = p->every_function[n].result_bytes;
  return most;
}

/* Places everything; called with no memory, it says how much is needed. */
static size_t place_all(odtc_trainer *t, uint8_t *at) {
  const odtc_program *p = &t->program;
  size_t total = 0;
  for (size_t n = 0; n < p->argument_count; ++n) {
    const odtc_argument *a = p->arguments + n;
    int is_elsewhere = t->parts[n] != NULL; /* in a file */
    uint8_t *data = is_elsewhere ? t->parts[n] : taken(&at, &total, a->bytes);
    uint8_t *part = has_parts(p, a) ? taken(&at, &total, odtc_part_bytes(p, n)) : data;
    if (!at && !is_elsewhere) continue;
    t->arguments[n].data = data;
    t->parts[n] = part;
  }
  t->result = taken(&at, &total, result_bytes(p));
  return total;
}

/* What waits there, and what an update reads and writes once: not sums of gradients. */
static int lies_in_file(const odtc_argument *a, const odtc_options *options) {
  if (a->role == ODTC_STORAGE) return a->bytes > 0;
  int is_state = a->role == ODTC_AVERAGE || (a->role == ODTC_STATE && !(a->flags & ODTC_ACCUMULATOR));
  return is_state && options->offload_state && a->bytes >= options->offload_state;
}

static odtc_code place_files(odtc_trainer *t, const odtc_options *options) {
  const odtc_program *p = &t->program;
  for (size_t n = 0; n < p->argument_count; ++n) {
    const odtc_argument *a = p->arguments + n;
    if (!lies_in_file(a, options)) continue;
    if (odtc_map_storage(options->storage ? options->storage : ".", p->text + a->name, a->bytes,
                         t->files + n, &t->problem))
      return t->problem.code;
    t->parts[n] = t->files[n].at;
  }
  return ODTC_OK;
}

/* What is done with each tensor of the file of weights: first those are found that stay in it. */
typedef struct {
  odtc_trainer *trainer;
  const odtc_options *options;
  uint8_t *found; /* for each argument, whether it was */
  int in_place;
  int stays; /* whether some are used as they lie there */
} filling;

/* The name of the weight that an argument starts from; NULL for one that starts otherwise. */
static const char *starts_from(const odtc_program *p, size_t number) {
  const odtc_argument *a = p->arguments + number;
  if (a->role == ODTC_AVERAGE) a = p->arguments + a->averaged;
  return is_weight(a->role) ? p->text + a->name : NULL;
}

static odtc_code take_entry(void *with, const odtc_entry *entry, odtc_problem *problem) {
  filling *f = with;
  odtc_trainer *t = f->trainer;
  const odtc_program *p = &t->program;
  for (size_t n = 0; n < p->argument_count; ++n) {
    const char *name = starts_from(p, n);
    if (!name || strcmp(name, entry->name)) continue;
    if (!odtc_entry_fits(t->arguments + n, entry))
      return odtc_entry_misfit(t->arguments + n, entry, problem);
    if (f->in_place) {
      int is_aligned = (uintptr_t)entry->data % ODTC_ALIGNMENT == 0;
      /* What is trained on a GPU is not where it is mirrored. */
      if ((p->arguments[n].role == ODTC_FROZEN && is_aligned) ||
          (odtc_is_for_gpu(p) && p->arguments[n].role != ODTC_AVERAGE))
        t->parts[n] = entry->data, f->stays = 1;
      continue;
    }
    if (f->found[n]++)
      return odtc_fail(problem, ODTC_DAMAGED, "the weight %.100s appears twice", name);
    if (t->arguments[n].data != entry->data)
      odtc_copy_out(t->arguments[n].data, entry->data, entry->bytes);
  }
  return ODTC_OK;
}

/* The same of a weight that lies in another file, of which the metadata say where. */
static odtc_code hear_place(void *with, const char *key, const char *text, odtc_problem *problem) {
  static const char BESIDE[] = "beside:";
  filling *f = with;
  odtc_trainer *t = f->trainer;
  const odtc_program *p = &t->program;
  if (strncmp(key, BESIDE, sizeof BESIDE - 1)) return ODTC_OK;
  const char *name = key + sizeof BESIDE - 1;
  for (size_t n = 0; n < p->argument_count; ++n) {
    const odtc_tensor *own = t->arguments + n;
    odtc_pages *pages = t->files + n;
    if (!is_weight(p->arguments[n].role) || strcmp(own->name, name)) continue;
    if (!pages->at && odtc_map_beside(t, f->options, n, text)) return problem->code;
    odtc_entry entry = {name, (unsigned)own->code, (unsigned)own->bits, (size_t)own->rank, {0},
                        pages->at + pages->bytes - own->bytes, own->bytes};
    if (own->rank) memcpy(entry.shape, own->shape, (size_t)own->rank * sizeof *own->shape);
    if (take_entry(f, &entry, problem)) return problem->code;
    if (!f->in_place && t->parts[n] != entry.data) odtc_unmap(pages);
    return ODTC_OK;
  }
  return ODTC_OK;
}

static odtc_code read_weights(filling *f) {
  odtc_trainer *t = f->trainer;
  return odtc_tensor_file_read(t->weights, (odtc_listener){take_entry, hear_place, f}, &t->problem);
}

static void start_state(odtc_tensor *tensor, double value) {
  size_t count = tensor->bytes / 4;
  if (value == 0) return; /* as new pages are */
  for (size_t n = 0; n < count; ++n)
    if (tensor->code == 2)
      ((float *)tensor->data)[n] = (float)value;
    else
      ((int32_t *)tensor->data)[n] = (int32_t)value;
}

static odtc_code fill_weights(odtc_trainer *t, filling *f) {
  const odtc_program *p = &t->program;
  f->in_place = 0;
  if (read_weights(f)) return t->problem.code;
  for (size_t n = 0; n < p->argument_count; ++n) {
    const char *name = starts_from(p, n);
    if (name && !f->found[n])
      return odtc_fail(&t->problem, ODTC_MISFIT, "the file of weights has no %.100s", name);
    if (p->arguments[n].role == ODTC_STATE)
      start_state(t->arguments + n, p->arguments[n].initial);
  }
  return ODTC_OK;
}

/* Compares the file with the hash that the program has of it; one of before has none. */
static odtc_code check_weights(odtc_trainer *t, const char *path) {
  const char *wanted = odtc_fact_of(&t->program, "weights_sha256", 0);
  char found[ODTC_HEX_BYTES];
  if (!wanted) return ODTC_OK;
  odtc_hash_pages(t->weights.at, t->weights.bytes, found);
  if (!strcmp(wanted, found)) return ODTC_OK;
  return odtc_fail(&t->problem, ODTC_DAMAGED,
                   "%.300s does not have the sha256 that the program was made with: it is damaged, or "
                   "of another artifact", path);
}

static odtc_code place_and_fill(odtc_trainer *t, const odtc_options *options, filling *f) {
  if (odtc_map_file(options->weights, &t->weights, &t->problem)) return t->problem.code;
  if (place_files(t, options)) return t->problem.code;
  f->in_place = 1;
  if (read_weights(f)) return t->problem.code;
  if (odtc_resize(&t->state, place_all(t, NULL) + ODTC_ALIGNMENT, &t->problem))
    return t->problem.code;
  place_all(t, t->state.at);
  if (fill_weights(t, f)) return t->problem.code;
  /* Behind what says more clearly what is wrong with a file of another model. */
  if (!options->unchecked_weights && check_weights(t, options->weights)) return t->problem.code;
  if (!f->stays) odtc_unmap(&t->weights);
  return ODTC_OK;
}

odtc_code odtc_fill(odtc_trainer *t, const odtc_options *options) {
  const odtc_program *p = &t->program;
  filling f = {.trainer = t, .options = options, .found = calloc(p->argument_count + 1, 1)};
  t->arguments = calloc(p->argument_count + 1, sizeof *t->arguments);
  t->parts = calloc(p->argument_count + 1, sizeof *t->parts);
  t->files = calloc(p->argument_count + 1, sizeof *t->files);
  if (!f.found || !t->arguments || !t->parts || !t->files) {
    free(f.found);
    return odtc_fail(&t->problem, ODTC_NO_MEMORY, "there is no memory for %zu arguments",
                     p->argument_count);
  }
  for (size_t n = 0; n < p->argument_count; ++n) {
    const odtc_argument *a = p->arguments + n;
    t->arguments[n] = (odtc_tensor){.name = p->text + a->name, .role = (odtc_role)a->role,
                                    .code = a->code, .bits = a->bits, .rank = (int)a->rank,
                                    .shape = p->dims + a->dims, .bytes = a->bytes};
  }
  odtc_code code = place_and_fill(t, options, &f);
  if (code) odtc_name_file(&t->problem, options->weights);
  free(f.found);
  return code;
}
