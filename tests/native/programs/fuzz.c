/* Reads edited files as the runtime does:
   fuzz MUTATIONS SEED PROGRAM WEIGHTS LIBRARY CHECKPOINT SCRATCH. Whatever a program is
   read as, each byte of each operand is touched in memory of just the size that the program asks for. With
   a sanitizer any step beside it ends the process. */
#include <sanitizer/asan_interface.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "library.h"
#include "program.h"
#include "tensor_file.h"
#include "trainer.h"

enum { MOST_REGION_BYTES = 1 << 24 };

typedef struct {
  uint8_t *at;
  size_t bytes;
} content;

static uint64_t state;
static uint64_t drawn(uint64_t below) { /* splitmix64 */
  uint64_t z = state += 0x9E3779B97F4A7C15u;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  return (z ^ z >> 31) % below;
}

static content read_file(const char *path) {
  FILE *file = fopen(path, "rb");
  if (!file || fseek(file, 0, SEEK_END)) exit(2);
  content found = {NULL, (size_t)ftell(file)};
  rewind(file);
  found.at = malloc(found.bytes);
  if (fread(found.at, found.bytes, 1, file) != 1) exit(2);
  fclose(file);
  return found;
}

/* Numbers that meet the edges of a reader. */
static uint64_t edge(void) {
  static const uint64_t EDGES[] = {0, 1, 2, 3, 31, 32, 33, 63, 64, 65, 255, 256, 0x7FFFFFFF, 0x80000000,
                                   0xFFFFFFFE, 0xFFFFFFFF, 0x100000000, 0x7FFFFFFFFFFFFFFF,
                                   0x8000000000000000, 0xFFFFFFFFFFFFFFFF};
  return drawn(3) ? EDGES[drawn(sizeof EDGES / sizeof *EDGES)] : drawn(UINT64_MAX);
}

/* The content at a multiple of 64, in a block that ends where it does. */
static content exact(content given) {
  size_t bytes = (given.bytes + 63) / 64 * 64;
  content made = {aligned_alloc(64, bytes), given.bytes};
  memcpy(made.at, given.at, given.bytes);
  __asan_poison_memory_region(made.at + given.bytes, bytes - given.bytes);
  free(given.at);
  return made;
}

/* A copy with some of its bytes others; `head` bytes in front are edited most. */
static content edited(content original, size_t head) {
  content copy = {aligned_alloc(64, (original.bytes + 63) / 64 * 64), original.bytes};
  memcpy(copy.at, original.at, copy.bytes);
  for (uint64_t n = 1 + drawn(4); n; --n) {
    size_t limit = drawn(2) && head < copy.bytes ? head : copy.bytes;
    size_t width = (size_t)1 << drawn(4), at = drawn(limit);
    uint64_t value = edge();
    if (drawn(2)) at = at / width * width;
    if (width > copy.bytes - at) width = copy.bytes - at;
    if (drawn(8) == 0 && copy.bytes > 1) copy.bytes = 1 + drawn(copy.bytes);
    if (at + width <= copy.bytes) memcpy(copy.at + at, &value, width);
  }
  return exact(copy);
}

static unsigned touched;
static void touch(const uint8_t *data, size_t bytes) {
  for (size_t n = 0; n < bytes; n += n + 64 < bytes ? 64 : 1) touched += data[n];
}

/* Touches the operands of a function, where it asks for no more memory than there is. */
static void touch_function(const odtc_program *p, const odtc_function *of) {
  if (of->arena_bytes > MOST_REGION_BYTES || of->result_bytes > MOST_REGION_BYTES) return;
  uint8_t **arguments = calloc(p->argument_count + 1, sizeof *arguments);
  for (size_t n = 0; n < p->argument_count; ++n)
    arguments[n] = calloc(odtc_sample_bytes(p, n, of->samples) + 1, 1);
  uint8_t *arena = calloc(of->arena_bytes + 1, 1), *result = calloc(of->result_bytes + 1, 1);
  for (uint32_t c = 0; c < of->calls; ++c) {
    const odtc_call *call = p->calls + of->first + c;
    touched += (unsigned)strlen(p->text + p->kernels[call->kernel]);
    for (uint32_t n = 0; n < call->operands; ++n) {
      const odtc_place *place = p->places + p->operands[call->first + n];
      const uint8_t *base = place->region == ODTC_IN_ARENA      ? arena
                            : place->region == ODTC_IN_RESULT   ? result
                            : place->region == ODTC_IN_CONSTANT ? p->constants
                                                                : arguments[place->number];
      touch(base + place->offset, odtc_tensor_bytes(p->dims + place->dims, place->rank, place->bits));
    }
  }
  for (size_t n = 0; n < p->argument_count; ++n) free(arguments[n]);
  free(arguments), free(arena), free(result);
}

static void touch_functions(const odtc_program *p) {
  uint64_t all = 0;
  for (size_t n = 0; n < p->argument_count; ++n) all += p->arguments[n].bytes;
  if (all > MOST_REGION_BYTES) return;
  for (size_t n = 0; n < p->argument_count; ++n)
    touched += (unsigned)strlen(p->text + p->arguments[n].name);
  for (size_t n = 0; n < p->function_count; ++n) touch_function(p, p->functions + n);
}

static void touch_program(odtc_program *p) {
  if (!p->length_count) touch_functions(p);
  for (size_t n = 0; n < p->length_count; ++n) {
    odtc_program_take_length(p, n);
    touch_functions(p);
  }
}

static odtc_code take(void *with, const odtc_entry *entry, odtc_problem *problem) {
  (void)with, (void)problem;
  touched += (unsigned)strlen(entry->name);
  touch(entry->data, entry->bytes);
  return ODTC_OK;
}

static odtc_code hear(void *with, const char *name, const char *text, odtc_problem *problem) {
  (void)with, (void)problem;
  touched += (unsigned)(strlen(name) + strlen(text));
  return ODTC_OK;
}

/* A trainer that has no more than what a checkpoint is taken up into. */
static odtc_trainer *trainer_of(content program) {
  odtc_trainer *t = calloc(1, sizeof *t);
  t->is_open = 1;
  t->file = program.at;
  if (odtc_program_read(program.at, program.bytes, &t->program, &t->problem)) exit(4);
  t->arguments = calloc(t->program.argument_count, sizeof *t->arguments);
  for (size_t n = 0; n < t->program.argument_count; ++n) {
    const odtc_argument *a = t->program.arguments + n;
    t->arguments[n] = (odtc_tensor){.name = t->program.text + a->name, .role = (odtc_role)a->role,
                                    .code = a->code, .bits = a->bits, .rank = (int)a->rank,
                                    .shape = t->program.dims + a->dims, .bytes = a->bytes,
                                    .data = malloc(a->bytes)};
  }
  return t;
}

static void end_trainer(odtc_trainer *t) {
  for (size_t n = 0; n < t->program.argument_count; ++n) free(t->arguments[n].data);
  free(t->arguments);
  free(t);
}

/* From memory, which ends where the checkpoint does, and from a file: with the same outcome. */
static odtc_code load_edited(odtc_trainer *t, content checkpoint, const char *scratch) {
  content each = edited(checkpoint, 4096);
  odtc_code code = odtc_load_bytes(t, each.at, each.bytes);
  FILE *file = fopen(scratch, "wb");
  if (!file || fwrite(each.at, each.bytes, 1, file) != 1 || fclose(file)) exit(5);
  free(each.at);
  /* A file of no bytes cannot be mapped: that is said in other words. */
  odtc_code of_file = odtc_load(t, scratch);
  if (each.bytes && of_file != code) exit(7);
  return of_file;
}

int main(int count, char **words) {
  if (count != 8) return 2;
  long mutations = atol(words[1]), read[4] = {0};
  content program = read_file(words[3]), weights = read_file(words[4]), library = read_file(words[5]);
  content checkpoint = read_file(words[6]);
  odtc_trainer *trainer = trainer_of(program = exact(program));
  if (odtc_load(trainer, words[6])) return 6;
  uint64_t header;
  memcpy(&header, weights.at, sizeof header);
  for (long n = 0; n < mutations; ++n) {
    odtc_problem problem = {0};
    state = strtoull(words[2], NULL, 10) + (uint64_t)n;
    content each = edited(program, 256);
    odtc_program found;
    if (!odtc_program_read(each.at, each.bytes, &found, &problem)) ++read[0], touch_program(&found);
    else if (!problem.code || !*problem.text) return 3;
    free(each.at);
    each = edited(weights, sizeof header + header);
    odtc_pages file = {each.at, each.bytes};
    if (!odtc_tensor_file_read(file, (odtc_listener){take, hear, NULL}, &problem)) ++read[1];
    free(each.at);
    each = edited(library, 512);
    const uint8_t *id;
    size_t bytes;
    if (!odtc_build_id(each.at, each.bytes, &id, &bytes, &problem)) ++read[2], touch(id, bytes);
    free(each.at);
    if (!load_edited(trainer, checkpoint, words[7])) ++read[3];
  }
  printf("%ld %ld %ld %ld\n", read[0], read[1], read[2], read[3]);
  end_trainer(trainer);
  free(checkpoint.at), free(program.at), free(weights.at), free(library.at);
  return touched == 1 ? 1 : 0;
}
