#include "program.h"

#include <string.h>

size_t odtc_tensor_bytes(const int64_t *shape, size_t rank, unsigned bits) {
  size_t bytes = bits / 8;
  for (size_t n = 0; n < rank; ++n)
    if (shape[n] < 0 || __builtin_mul_overflow(bytes, (size_t)shape[n], &bytes)) return SIZE_MAX;
  return bytes;
}

size_t odtc_sample_bytes(const odtc_program *program, size_t argument, uint32_t samples) {
  const odtc_argument *a = program->arguments + argument;
  return a->groups ? a->bytes / program->head->samples * samples : a->bytes;
}

size_t odtc_part_bytes(const odtc_program *program, size_t argument) {
  const odtc_program_head *head = program->head;
  return odtc_sample_bytes(program, argument, head->samples / head->micro_batches);
}

size_t odtc_whole_result_bytes(const odtc_program *program, const odtc_function *function) {
  const odtc_place *result = program->places + function->result;
  return odtc_tensor_bytes(program->dims + function->dims, result->rank, result->bits);
}

void odtc_program_take_length(odtc_program *p, size_t number) {
  const odtc_length *of = p->lengths + number;
  p->arguments = p->every_argument + number * p->argument_count;
  p->functions = p->every_function + of->first, p->function_count = of->functions;
  p->over_features = NULL;
  for (p->plans = 0; p->plans < p->function_count && p->functions[p->plans].output == ODTC_NONE;) ++p->plans;
}

/* Where a program has a table, and what its records are. */
typedef struct {
  const char *name;
  const void *at;
  size_t count, size;
} table;

/* Finds a table; one that leaves the file, or does not begin where it can, has no records. */
static odtc_code find_table(const uint8_t *file, size_t bytes, size_t number, table *found,
                            odtc_problem *problem) {
  uint64_t place[2];
  memcpy(place, file + sizeof(odtc_program_head) + number * sizeof place, sizeof place);
  uint64_t offset = place[0], count = place[1];
  if (offset % ODTC_ALIGNMENT || offset > bytes || count > (bytes - offset) / found->size ||
      count >= ODTC_NONE)
    return odtc_fail(problem, ODTC_DAMAGED, "the program's table of %s is not within the file",
                     found->name);
  found->at = file + offset, found->count = (size_t)count;
  return ODTC_OK;
}

/* How many tables a program of a version has. */
static size_t tables_of(const odtc_program_head *head) { return head->version == ODTC_WITH_LENGTHS ? 11 : 10; }

static odtc_code check_head(const uint8_t *file, size_t bytes, odtc_problem *problem) {
  const odtc_program_head *head = (const odtc_program_head *)file;
  if (bytes < sizeof *head || memcmp(head->magic, "odtcprog", sizeof head->magic))
    return odtc_fail(problem, ODTC_DAMAGED, "the file is not a program of odtc");
  if (head->version < ODTC_PROGRAM_VERSION || head->version > ODTC_WITH_LENGTHS)
    return odtc_fail(problem, ODTC_UNSUPPORTED,
                     "the program has version %u; this runtime reads versions %d to %d", head->version,
                     ODTC_PROGRAM_VERSION, ODTC_WITH_LENGTHS);
  const size_t tables = tables_of(head), least = sizeof *head + tables * 2 * sizeof(uint64_t);
  if (bytes < least || head->tables != tables || head->bytes != bytes)
    return odtc_fail(problem, ODTC_DAMAGED, "the program has %zu bytes of %llu", bytes,
                     (unsigned long long)head->bytes);
  if (!head->micro_batches || !head->accumulate || !head->threads || !head->samples ||
      head->samples % head->micro_batches || head->flags & ~(uint32_t)ODTC_SKIPS)
    return odtc_fail(problem, ODTC_DAMAGED, "the program's header has numbers that none can have");
  return ODTC_OK;
}

odtc_code odtc_program_read(const uint8_t *file, size_t bytes, odtc_program *p,
                            odtc_problem *problem) {
  table tables[] = {
      {"arguments", NULL, 0, sizeof(odtc_argument)}, {"tensors", NULL, 0, sizeof(odtc_place)},
      {"functions", NULL, 0, sizeof(odtc_function)}, {"calls", NULL, 0, sizeof(odtc_call)},
      {"operands", NULL, 0, sizeof(uint32_t)},       {"kernels", NULL, 0, sizeof(uint32_t)},
      {"facts", NULL, 0, sizeof(odtc_said)},         {"sizes", NULL, 0, sizeof(int64_t)},
      {"text", NULL, 0, 1},                          {"constants", NULL, 0, 1},
      {"lengths", NULL, 0, sizeof(odtc_length)},
  };
  if (check_head(file, bytes, problem)) return problem->code;
  const size_t count = tables_of((const odtc_program_head *)file);
  for (size_t n = 0; n < count; ++n)
    if (find_table(file, bytes, n, tables + n, problem)) return problem->code;
  *p = (odtc_program){
      .head = (const odtc_program_head *)file,
      .arguments = tables[0].at, .argument_count = tables[0].count,
      .places = tables[1].at,    .place_count = tables[1].count,
      .functions = tables[2].at, .function_count = tables[2].count,
      .calls = tables[3].at,     .call_count = tables[3].count,
      .operands = tables[4].at,  .operand_count = tables[4].count,
      .kernels = tables[5].at,   .kernel_count = tables[5].count,
      .facts = tables[6].at,     .fact_count = tables[6].count,
      .dims = tables[7].at,      .dim_count = tables[7].count,
      .text = tables[8].at,      .text_bytes = tables[8].count,
      .constants = tables[9].at, .constant_bytes = tables[9].count,
      .lengths = tables[10].at,  .length_count = tables[10].count,
      .every_argument = tables[0].at,
      .every_function = tables[2].at, .every_function_count = tables[2].count,
  };
  return odtc_program_check(p, problem);
}
