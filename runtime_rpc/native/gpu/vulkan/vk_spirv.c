#include "vk_spirv.h"

#include <string.h>

enum { MAGIC = 0x07230203, HEADER = 5 };
/* Instructions, and what they are given. */
enum { NAME = 5, ENTRY_POINT = 15, EXECUTION_MODE = 16, CAPABILITY = 17, FUNCTION_END = 56, DECORATE = 71 };
enum { TYPE_INT = 21, TYPE_FLOAT = 22, TYPE_VECTOR = 23, TYPE_ARRAY = 28, TYPE_POINTER = 32, CONSTANT = 43, VARIABLE = 59 };
enum { LOCAL_SIZE = 17, BINDING = 33, UNIFORM_CONSTANT = 0, WORK_GROUP = 4, MOST_BITS = 64 };
/* The names of a buffer that the kernel only reads, and of an image of float16, by backends/spirv/interface.py. */
static const char READ_ONLY[] = "read_only", HALVES[] = "halves";

/* Instructions one after the other; each has its length and number in its first word. */
typedef struct {
  const uint32_t *at, *end;
  uint32_t words, number;
} reader;

/* Goes to the next instruction: 0 at the end, -1 if there is none where one should be. */
static int next(reader *r) {
  r->at += r->words;
  if (r->at == r->end) return 0;
  r->words = *r->at >> 16;
  r->number = *r->at & 0xffff;
  return r->words && r->words <= (size_t)(r->end - r->at) ? 1 : -1;
}

static reader from(const uint32_t *words, size_t count) {
  return (reader){words + HEADER, words + count, 0, 0};
}

/* The binding of a variable; UINT32_MAX if it has none. */
static uint32_t binding_of(reader r, uint32_t variable) {
  while (next(&r) > 0)
    if (r.number == DECORATE && r.words == 4 && r.at[1] == variable && r.at[2] == BINDING) return r.at[3];
  return UINT32_MAX;
}

/* The instruction whose result has a number, which stands in one of its words; NULL where there is none. */
static const uint32_t *made(reader r, uint32_t number, size_t word, uint32_t result) {
  while (next(&r) > 0)
    if (r.number == number && r.words > word + 1 && r.at[word] == result) return r.at;
  return NULL;
}

/* Bytes of a variable of a type: numbers, vectors and arrays of them, at most so deep. */
static uint64_t bytes_of(reader r, uint32_t type, int depth) {
  const uint32_t *at, *count;
  uint64_t each;
  if ((at = made(r, TYPE_INT, 1, type)) || (at = made(r, TYPE_FLOAT, 1, type))) return at[2] / 8;
  if (!depth) return UINT64_MAX;
  if ((at = made(r, TYPE_VECTOR, 1, type))) return bytes_of(r, at[2], 0) * at[3];
  if (!(at = made(r, TYPE_ARRAY, 1, type)) || !(count = made(r, CONSTANT, 2, at[3]))) return UINT64_MAX;
  each = bytes_of(r, at[2], depth - 1);
  return each > UINT32_MAX ? UINT64_MAX : each * count[3];
}

/* Bytes that a variable adds, of this pointer's type. */
static uint64_t more_shared(reader r, uint32_t pointer, uint64_t bytes) {
  enum { DEEPEST = 3 };
  const uint32_t *at = made(r, TYPE_POINTER, 1, pointer);
  uint64_t more = at ? bytes_of(r, at[3], DEEPEST) : UINT64_MAX;
  return more > UINT64_MAX - bytes ? UINT64_MAX : bytes + more;
}

/* Whether the text from a word of an instruction on is a name. */
static int is_name(const reader *r, uint32_t word, const char *name) {
  const char *text = (const char *)(r->at + word);
  size_t room = (r->words - word) * sizeof *r->at, length = strlen(name);
  return length < room && !memcmp(text, name, length + 1);
}

static int is_called(reader r, uint32_t variable, const char *name) {
  while (next(&r) > 0)
    if (r.number == NAME && r.words > 2 && r.at[1] == variable && is_name(&r, 2, name)) return 1;
  return 0;
}

odtc_code odtc_vk_read_shader(const odtc_gpu *gpu, const odtc_gpu_kernel *kernel, odtc_vk_shader *shader,
                              odtc_problem *problem) {
  const uint32_t *words = kernel->code;
  size_t count = kernel->code_bytes / sizeof *words;
  /* The bindings of images come behind all others, in the order of the buffers. */
  uint32_t first_image = kernel->buffers + odtc_vk_is_uniform(kernel);
  *shader = (odtc_vk_shader){{0, 0, 0}, 0, 0, 0, 0};
  int left = count > HEADER && words[0] == MAGIC ? 1 : -1, is_named = 0;
  reader r = left > 0 ? from(words, count) : (reader){0};
  while (left > 0 && (left = next(&r)) > 0) {
    if (r.number == CAPABILITY && r.words == 2) {
      if (odtc_vk_check_capability(gpu, r.at[1], kernel->name, problem)) return problem->code;
    } else if (r.number == ENTRY_POINT && r.words > 3) {
      is_named |= is_name(&r, 3, kernel->name);
    } else if (r.number == EXECUTION_MODE && r.words == 6 && r.at[2] == LOCAL_SIZE) {
      memcpy(shader->items, r.at + 3, sizeof shader->items);
    } else if (r.number == VARIABLE && r.words > 3 && r.at[3] == WORK_GROUP) {
      shader->shared_bytes = more_shared(from(words, count), r.at[1], shader->shared_bytes);
    } else if (r.number == VARIABLE && r.words > 3 && r.at[3] == UNIFORM_CONSTANT) {
      uint32_t image = binding_of(from(words, count), r.at[2]) - first_image;
      if (image >= kernel->buffers || image >= MOST_BITS) break; /* before the end: it is damaged */
      shader->offered |= UINT64_C(1) << image;
      if (is_called(from(words, count), r.at[2], HALVES)) shader->halves |= UINT64_C(1) << image;
    } else if (r.number == NAME && r.words > 2 && is_name(&r, 2, READ_ONLY)) {
      uint32_t binding = binding_of(from(words, count), r.at[1]);
      if (binding < MOST_BITS) shader->read_only |= UINT64_C(1) << binding;
    }
  }
  /* The number is that of the last instruction: of code that was cut short, drivers read on behind its end. */
  if (left == 0 && is_named && shader->items[0] && r.number == FUNCTION_END) return ODTC_OK;
  return odtc_fail(problem, ODTC_DAMAGED, "the SPIR-V of the kernel %.100s is damaged", kernel->name);
}
