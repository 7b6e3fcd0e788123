/* Whether everything in a program that refers to something refers to what is there. */
#include <math.h>

#include "program.h"

/* Far above what a device has, and below what sums of some of them overflow. */
static const uint64_t MOST_BYTES = (uint64_t)1 << 46;

#define FIT(condition, ...) \
  do {                      \
    if (!(condition)) return odtc_fail(problem, ODTC_DAMAGED, __VA_ARGS__); \
  } while (0)

static int is_text(const odtc_program *p, uint32_t place) { return place < p->text_bytes; }

static int is_dtype(unsigned code, unsigned bits) {
  switch (code) {
    case 0: case 1: return bits == 8 || bits == 16 || bits == 32 || bits == 64;
    case 2: return bits == 16 || bits == 32 || bits == 64;
    case 6: return bits == 8;
    default: return 0;
  }
}

/* Bytes of a tensor whose shape is among the sizes; SIZE_MAX where it is not. */
static size_t bytes_of(const odtc_program *p, unsigned code, unsigned bits, uint32_t rank,
                       uint32_t dims) {
  if (!is_dtype(code, bits) || rank > ODTC_MOST_RANK || dims > p->dim_count ||
      rank > p->dim_count - dims)
    return SIZE_MAX;
  return odtc_tensor_bytes(p->dims + dims, rank, bits);
}

static int is_scalar(const odtc_argument *a, unsigned code) {
  return a->code == code && a->bits == 32 && a->bytes == 4;
}

static int is_average_of(const odtc_program *p, const odtc_argument *a, uint32_t number) {
  if (number >= p->argument_count) return 0;
  const odtc_argument *of = p->arguments + number;
  return of->role == ODTC_PARAMETER && of->bytes == a->bytes && of->code == a->code &&
         of->bits == a->bits;
}

static odtc_code check_argument(const odtc_program *p, size_t number, odtc_problem *problem) {
  const odtc_argument *a = p->arguments + number;
  size_t bytes = bytes_of(p, a->code, a->bits, a->rank, a->dims);
  FIT(a->role <= ODTC_FEATURES && is_text(p, a->name), "argument %zu has no role or name", number);
  const char *name = p->text + a->name;
  FIT(bytes <= MOST_BYTES && bytes == a->bytes, "the bytes of %.100s are not those of its shape",
      name);
  FIT(!(a->flags & ~(uint32_t)(ODTC_BOUNDED | ODTC_IGNORES | ODTC_ACCUMULATOR)),
      "%.100s has unknown flags", name);
  int is_fed = a->role == ODTC_INPUT || a->role == ODTC_LABEL || a->role == ODTC_FEATURES;
  uint64_t runs = (uint64_t)a->groups * p->head->samples; /* both have 32 bits */
  FIT(!a->groups || (is_fed && bytes % runs == 0), "%.100s cannot be cut into parts", name);
  FIT(!(a->flags & ODTC_BOUNDED) || (is_fed && a->code <= 1 && a->least <= a->most),
      "%.100s has bounds, but is not fed integers", name);
  FIT(!(a->flags & ODTC_ACCUMULATOR) || (a->role == ODTC_STATE && a->code == 2 && a->bits == 32),
      "%.100s adds up gradients, but is not state in float32", name);
  FIT(isfinite(a->initial), "%.100s starts at a value that is not finite", name);
  int starts = a->role == ODTC_STATE && a->initial != 0;
  FIT(!starts || ((a->code == 2 || a->code == 0) && a->bits == 32),
      "%.100s of another type than float32 or int32 starts at a number", name);
  if (a->role == ODTC_AVERAGE)
    FIT(is_average_of(p, a, a->averaged), "%.100s is the average of no parameter", name);
  return ODTC_OK;
}

static odtc_code check_arguments(odtc_program *p, odtc_problem *problem) {
  size_t rates = 0, steps = 0;
  uint64_t all = 0;
  for (size_t n = 0; n < p->argument_count; ++n) {
    const odtc_argument *a = p->arguments + n;
    if (check_argument(p, n, problem)) return problem->code;
    FIT((all += a->bytes) <= MOST_BYTES, "the arguments are too large for any device");
    if (a->role == ODTC_LEARNING_RATE && is_scalar(a, 2)) ++rates, p->rate = n;
    if (a->role == ODTC_STEP && is_scalar(a, 0)) ++steps, p->step = n;
  }
  FIT(rates == 1 && steps == 1, "the step has not one learning rate and one number");
  uint32_t scale = p->head->scale;
  FIT(scale == ODTC_NONE || (scale < p->argument_count && is_scalar(p->arguments + scale, 2) &&
                             p->arguments[scale].role == ODTC_STATE),
      "the loss scale is not a float32 state");
  return ODTC_OK;
}

/* Bytes of what a tensor lies in, within one function. */
static size_t room_of(const odtc_program *p, const odtc_place *place, const odtc_function *of) {
  switch (place->region) {
    case ODTC_IN_ARGUMENT:
      return place->number < p->argument_count ? odtc_sample_bytes(p, place->number, of->samples) : 0;
    case ODTC_IN_CONSTANT: return p->constant_bytes;
    case ODTC_IN_ARENA: return of->arena_bytes;
    case ODTC_IN_RESULT: return of->result_bytes;
    default: return 0;
  }
}

static int is_within(const odtc_program *p, uint32_t tensor, const odtc_function *of) {
  if (tensor >= p->place_count) return 0;
  const odtc_place *place = p->places + tensor;
  size_t bytes = bytes_of(p, place->code, place->bits, place->rank, place->dims);
  size_t room = room_of(p, place, of);
  return place->region < ODTC_REGIONS && !place->zero && place->offset % ODTC_ALIGNMENT == 0 &&
         (place->region != ODTC_IN_ARGUMENT || place->number < p->argument_count) &&
         (place->region == ODTC_IN_ARGUMENT || !place->number) && place->offset <= room &&
         bytes <= room - place->offset;
}

static odtc_code check_call(const odtc_program *p, const odtc_function *of, size_t number,
                            odtc_problem *problem) {
  const odtc_call *call = p->calls + of->first + number;
  const char *name = p->text + of->name;
  FIT(call->kernel < p->kernel_count && call->first <= p->operand_count &&
          call->operands <= p->operand_count - call->first,
      "call %zu of %.100s has no kernel or operands", number, name);
  for (uint32_t n = 0; n < call->operands; ++n)
    FIT(is_within(p, p->operands[call->first + n], of),
        "operand %u of call %zu of %.100s is not within its memory", n, number, name);
  return ODTC_OK;
}

/* Whether what a call gives is of the size of its samples, which lie in so many groups. */
static int is_made_of_samples(const odtc_program *p, const odtc_function *of) {
  const odtc_place *result = p->places + of->result;
  size_t part = bytes_of(p, result->code, result->bits, result->rank, result->dims);
  size_t whole = bytes_of(p, result->code, result->bits, result->rank, of->dims);
  uint64_t batch = p->head->samples;
  if (whole > MOST_BYTES) return 0;
  if (!of->groups) return whole == part;
  return of->axis < result->rank && (uint64_t)p->dims[of->dims + of->axis] % batch == 0 &&
         whole % (of->groups * batch) == 0 && part == whole / batch * of->samples;
}

/* Whether an evaluation is one more of the output that another is of, with fewer samples. */
static int is_smaller(const odtc_program *p, const odtc_function *of, const odtc_function *than) {
  const odtc_place *result = p->places + of->result, *other = p->places + than->result;
  return of->output == than->output && of->samples < than->samples && of->groups == than->groups &&
         of->axis == than->axis && of->dims == than->dims && result->code == other->code &&
         result->bits == other->bits && result->rank == other->rank;
}

static odtc_code check_function(const odtc_program *p, size_t number, odtc_problem *problem) {
  const odtc_function *of = p->functions + number;
  FIT(is_text(p, of->name) && !of->zero, "function %zu has no name", number);
  uint32_t batch = p->head->samples / p->head->micro_batches;
  const char *name = p->text + of->name;
  FIT(of->first <= p->call_count && of->calls <= p->call_count - of->first,
      "%.100s has calls that are not there", name);
  FIT(of->arena_bytes <= MOST_BYTES && of->result_bytes <= MOST_BYTES,
      "the memory of %.100s is too large for any device", name);
  FIT(of->samples && of->samples <= batch && (of->groups || of->samples == batch),
      "%.100s is of %u samples, and the step of %u", name, of->samples, batch);
  for (uint32_t n = 0; n < of->calls; ++n)
    if (check_call(p, of, n, problem)) return problem->code;
  FIT(is_within(p, of->result, of), "the result of %.100s is not within its memory", name);
  if (of->output == ODTC_NONE) {
    const odtc_place *loss = p->places + of->result;
    int is_over = p->head->version == ODTC_WITH_FEATURES && number && number + 1 == p->function_count;
    FIT(number == p->plans || is_over, "the plan %.100s is after an evaluation", name);
    FIT(loss->code == 2 && loss->bits == 32 &&
            bytes_of(p, loss->code, loss->bits, loss->rank, loss->dims) == 4,
        "the loss of %.100s is not a float32 number", name);
    FIT(isfinite(of->time), "the time of %.100s is not a number", name);
    return ODTC_OK;
  }
  FIT(is_text(p, of->output), "the output of %.100s has no name", name);
  FIT(is_made_of_samples(p, of), "the result of %.100s cannot be made of its parts", name);
  FIT(of->samples == batch || (number > p->plans && is_smaller(p, of, of - 1)),
      "%.100s is of fewer samples, and of another output than that before it", name);
  return ODTC_OK;
}

static odtc_code check_functions(odtc_program *p, odtc_problem *problem) {
  p->plans = 0;
  for (size_t n = 0; n < p->function_count; ++n) {
    if (check_function(p, n, problem)) return problem->code;
    if (p->functions[n].output != ODTC_NONE) continue;
    if (n == p->plans) ++p->plans;
    else p->over_features = p->functions + n;
  }
  FIT(p->plans, "the program has no plan of a step");
  return ODTC_OK;
}

/* Whether an argument of a shorter length may lie where that of the longest does. */
static int is_same_but_shorter(const odtc_argument *a, const odtc_argument *longest) {
  int is_fed = a->role == ODTC_INPUT || a->role == ODTC_LABEL;
  return a->role == longest->role && a->name == longest->name && a->code == longest->code &&
         a->bits == longest->bits && a->rank == longest->rank && a->groups == longest->groups &&
         a->averaged == longest->averaged && a->flags == longest->flags &&
         (is_fed ? a->bytes <= longest->bytes : a->bytes == longest->bytes && a->dims == longest->dims);
}

/* Each length as a program of its own; the longest is taken then. */
static odtc_code check_lengths(odtc_program *p, odtc_problem *problem) {
  FIT(p->argument_count % p->length_count == 0, "the lengths of the program have not as many arguments each");
  p->argument_count /= p->length_count;
  for (size_t n = p->length_count; n-- > 0;) {
    const odtc_length *of = p->lengths + n;
    FIT(of->length && (!n || of->length < of[-1].length), "the lengths of the program do not fall");
    FIT(of->first <= p->every_function_count && of->functions <= p->every_function_count - of->first,
        "a length of the program has functions that are not there");
    odtc_program_take_length(p, n);
    size_t rate = p->rate, step = p->step;
    if (check_arguments(p, problem) || check_functions(p, problem)) return problem->code;
    FIT(n + 1 == p->length_count || (p->rate == rate && p->step == step),
        "the lengths of the program have other arguments");
    for (size_t k = 0; k < p->argument_count; ++k)
      FIT(is_same_but_shorter(p->arguments + k, p->every_argument + k),
          "the lengths of the program have other arguments");
  }
  return ODTC_OK;
}

odtc_code odtc_program_check(odtc_program *p, odtc_problem *problem) {
  FIT(p->text_bytes && !p->text[p->text_bytes - 1], "the program's text does not end");
  for (size_t n = 0; n < p->kernel_count; ++n)
    FIT(is_text(p, p->kernels[n]), "kernel %zu has no name", n);
  for (size_t n = 0; n < p->fact_count; ++n)
    FIT(is_text(p, p->facts[n].name) && is_text(p, p->facts[n].value), "fact %zu is not a string", n);
  if (p->head->version == ODTC_WITH_LENGTHS) {
    FIT(p->length_count, "the program has no length");
    return check_lengths(p, problem);
  }
  return check_arguments(p, problem) ? problem->code : check_functions(p, problem);
}
