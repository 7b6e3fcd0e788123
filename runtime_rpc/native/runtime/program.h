/* A program as it lies in its file; docs/program.md says what each field is. A file is checked once,
   as a whole: whoever has an odtc_program may follow its numbers without looking. */
#ifndef ODTC_PROGRAM_H
#define ODTC_PROGRAM_H

#include "memory.h"
#include "problem.h"

enum { ODTC_PROGRAM_VERSION = 2, ODTC_WITH_FEATURES = 3, ODTC_WITH_LENGTHS = 4 };
enum { ODTC_IDENTITY_BYTES = 32, ODTC_MOST_RANK = 32 };
#define ODTC_NONE UINT32_MAX

enum { ODTC_SKIPS = 1 };
enum { ODTC_BOUNDED = 1, ODTC_IGNORES = 2, ODTC_ACCUMULATOR = 4 };
enum { ODTC_IN_ARGUMENT, ODTC_IN_CONSTANT, ODTC_IN_ARENA, ODTC_IN_RESULT, ODTC_REGIONS };

typedef struct {
  uint32_t role, name;
  uint16_t code, bits;
  uint32_t rank, dims, groups, averaged, flags;
  uint64_t bytes;
  double initial;
  int64_t least, most, ignored;
} odtc_argument;

typedef struct {
  uint32_t region, number;
  uint16_t code, bits;
  uint32_t rank, dims, zero;
  uint64_t offset;
} odtc_place;

typedef struct {
  uint32_t name, output, first, calls, result, groups, dims, samples, axis, zero;
  uint64_t arena_bytes, result_bytes, budget_bytes;
  double time;
} odtc_function;

typedef struct {
  uint32_t kernel, first, operands;
} odtc_call;

typedef struct {
  uint32_t name, value;
} odtc_said;

/* A length that a step can be taken at: which functions are its own. */
typedef struct {
  uint64_t length;
  uint32_t first, functions;
} odtc_length;

typedef struct {
  char magic[8];
  uint32_t version, tables;
  uint64_t bytes;
  uint8_t identity[ODTC_IDENTITY_BYTES];
  uint32_t micro_batches, accumulate, threads, flags, scale, samples;
} odtc_program_head;

typedef struct {
  const odtc_program_head *head;
  const odtc_argument *arguments;
  const odtc_place *places;
  const odtc_function *functions;
  const odtc_call *calls;
  const uint32_t *operands, *kernels;
  const odtc_said *facts;
  const int64_t *dims;
  const char *text;
  const uint8_t *constants;
  size_t argument_count, place_count, function_count, call_count, operand_count, kernel_count,
      fact_count, dim_count, text_bytes, constant_bytes;
  /* Of a step that can be taken at several lengths, the longest first; arguments and functions are those of
     the one that is taken, and there are as many arguments of each. */
  const odtc_length *lengths;
  size_t length_count;
  const odtc_argument *every_argument;
  const odtc_function *every_function;
  size_t every_function_count;
  size_t plans;        /* functions that are plans; they come first */
  const odtc_function *over_features; /* the step without what frozen layers make; NULL if there is none */
  size_t rate, step;   /* numbers of the arguments that are the learning rate and the call's number */
} odtc_program;

/* Reads a program from memory that begins at a multiple of the alignment, and checks all of it. */
odtc_code odtc_program_read(const uint8_t *file, size_t bytes, odtc_program *program,
                            odtc_problem *problem);

/* The same after the header: what refers to something else refers to what is there. */
odtc_code odtc_program_check(odtc_program *program, odtc_problem *problem);

/* Lets arguments and functions be those of the length of a number. */
void odtc_program_take_length(odtc_program *program, size_t number);

/* Bytes of an argument that a call of so many samples reads. */
size_t odtc_sample_bytes(const odtc_program *program, size_t argument, uint32_t samples);
/* The same of one call of the step: a part, where a step has micro-batches. */
size_t odtc_part_bytes(const odtc_program *program, size_t argument);
/* Bytes of a dense tensor; SIZE_MAX where that overflows, or a size is negative. */
size_t odtc_tensor_bytes(const int64_t *shape, size_t rank, unsigned bits);
/* Bytes of the result of an evaluation of a whole step. */
size_t odtc_whole_result_bytes(const odtc_program *program, const odtc_function *function);

#endif
