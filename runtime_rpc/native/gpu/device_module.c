#include "device_module.h"

#include <stdlib.h>
#include <string.h>

/* Before each kernel's source, with its name behind it. */
static const char MARK[] = "// Function: ";

/* What is left of some bytes. A reader that has failed stays at the end of them. */
typedef struct {
  const uint8_t *at, *end;
  int failed;
} reader;

typedef struct {
  const char *at;
  size_t bytes;
} string;

static const uint8_t *take(reader *r, uint64_t bytes) {
  if (bytes > (uint64_t)(r->end - r->at)) {
    r->failed = 1;
    r->at = r->end;
    return NULL;
  }
  const uint8_t *taken = r->at;
  r->at += bytes;
  return taken;
}

static uint64_t number(reader *r) {
  uint64_t value = 0;
  const uint8_t *at = take(r, sizeof value);
  if (at) memcpy(&value, at, sizeof value);
  return value;
}

/* The number of things that follow, each of so many bytes or more: no more of them than there is room for. */
static uint64_t count_of(reader *r, size_t least) {
  uint64_t count = number(r);
  if (count <= (uint64_t)(r->end - r->at) / least) return count;
  r->failed = 1;
  return 0;
}

static string text(reader *r) {
  uint64_t bytes = number(r);
  const uint8_t *at = take(r, bytes);
  return at ? (string){(const char *)at, (size_t)bytes} : (string){"", 0};
}

static int is(string s, const char *word) {
  return s.bytes == strlen(word) && !memcmp(s.at, word, s.bytes);
}

static reader within(string s) {
  const uint8_t *at = (const uint8_t *)s.at;
  return (reader){at, at + s.bytes, 0};
}

/* Memory for all that is copied; what is read has eight bytes before each piece, which a piece's zero, or what aligns
   it, takes. */
typedef struct {
  uint8_t *at;
} room;

static void *copied(room *from, const void *bytes, size_t count) {
  uint8_t *at = from->at;
  if (count) memcpy(at, bytes, count);
  at[count] = '\0';
  from->at += (count + 1 + 3) / 4 * 4;
  return at;
}

static odtc_code damaged(odtc_problem *problem) {
  return odtc_fail(problem, ODTC_DAMAGED, "the kernels of the library are not what odtc wrote");
}

static odtc_code read_tag(string tag, const char *kernel, uint8_t *axis, odtc_problem *problem) {
  static const char *const TAGS[ODTC_MOST_SIZES] = {"blockIdx.x",  "blockIdx.y",  "blockIdx.z",
                                                    "threadIdx.x", "threadIdx.y", "threadIdx.z"};
  for (uint8_t n = 0; n < ODTC_MOST_SIZES; ++n)
    if (is(tag, TAGS[n])) {
      *axis = n;
      return ODTC_OK;
    }
  return odtc_fail(problem, ODTC_UNSUPPORTED, "the kernel %.100s is launched by %.*s", kernel,
                   (int)(tag.bytes < 100 ? tag.bytes : 100), tag.at);
}

/* Whether host code gives a number as its bytes are: of float16 it would give a double. */
static int is_number(const struct odtc_gpu_type *type) {
  enum { INT, UINT, FLOAT, BOOL = 6 };
  int is_word = type->bits == 32 || type->bits == 64;
  if (type->lanes != 1) return 0;
  if (type->code == FLOAT) return is_word;
  return (type->code == INT || type->code == UINT || type->code == BOOL) &&
         (is_word || type->bits == 8 || type->bits == 16);
}

/* Buffers come first. */
static odtc_code read_types(reader *r, room *memory, odtc_gpu_kernel *kernel, odtc_problem *problem) {
  enum { HANDLE = 3 };
  uint64_t count = count_of(r, sizeof *kernel->types);
  const uint8_t *at = take(r, count * sizeof *kernel->types);
  const struct odtc_gpu_type *types = copied(memory, at, at ? (size_t)count * sizeof *types : 0);
  uint32_t buffers = 0;
  while (buffers < count && types[buffers].code == HANDLE) ++buffers;
  kernel->buffers = buffers;
  kernel->numbers = (uint32_t)count - buffers;
  kernel->types = types + buffers;
  for (uint32_t n = 0; n < kernel->numbers; ++n) {
    const struct odtc_gpu_type *each = kernel->types + n;
    if (!is_number(each))
      return odtc_fail(problem, ODTC_UNSUPPORTED, "the kernel %.100s has an argument of code %u, %u bits and %u lanes "
                       "after its buffers", kernel->name, each->code, each->bits, each->lanes);
  }
  return ODTC_OK;
}

static odtc_code read_kernels(reader *r, room *memory, odtc_device_module *module, odtc_problem *problem) {
  uint64_t count = count_of(r, 5 * sizeof(uint64_t));
  module->kernels = calloc((size_t)count + 1, sizeof *module->kernels);
  module->sizes = calloc((size_t)count + 1, sizeof *module->sizes);
  if (!module->kernels || !module->sizes)
    return odtc_fail(problem, ODTC_NO_MEMORY, "there is no memory for %zu kernels", (size_t)count);
  for (; module->count < count && !r->failed; ++module->count) {
    odtc_gpu_kernel *kernel = module->kernels + module->count;
    odtc_sizes *sizes = module->sizes + module->count;
    text(r);
    string name = text(r);
    kernel->name = copied(memory, name.at, name.bytes);
    if (read_types(r, memory, kernel, problem)) return problem->code;
    uint64_t tags = count_of(r, sizeof(uint64_t));
    if (tags > ODTC_MOST_SIZES) return damaged(problem);
    for (sizes->count = 0; sizes->count < tags && !r->failed; ++sizes->count) {
      string tag = text(r);
      if (!r->failed && read_tag(tag, kernel->name, sizes->of + sizes->count, problem)) return problem->code;
    }
    take(r, count_of(r, sizeof(int32_t)) * sizeof(int32_t));
  }
  return r->failed ? damaged(problem) : ODTC_OK;
}

/* The next mark of a kernel's source; the end of all of it if there is none. */
static const char *next_mark(const char *at, const char *end) {
  for (; (size_t)(end - at) >= sizeof MARK - 1; ++at)
    if (*at == *MARK && !memcmp(at, MARK, sizeof MARK - 1)) return at;
  return end;
}

static odtc_code read_source(reader *r, odtc_device_module *module, odtc_problem *problem) {
  string source = text(r);
  const char *at = source.at, *end = source.at + source.bytes;
  for (const char *next; !r->failed && (at = next_mark(at, end)) != end; at = next) {
    const char *name = at + sizeof MARK - 1, *line = memchr(name, '\n', (size_t)(end - name));
    if (!line) break;
    next = next_mark(line, end);
    for (size_t n = 0; n < module->count; ++n)
      if (is((string){name, (size_t)(line - name)}, module->kernels[n].name)) {
        module->kernels[n].code = line + 1;
        module->kernels[n].code_bytes = (size_t)(next - line - 1);
      }
  }
  return r->failed ? damaged(problem) : ODTC_OK;
}

static odtc_code read_shaders(reader *r, room *memory, odtc_device_module *module, odtc_problem *problem) {
  for (uint64_t left = count_of(r, 2 * sizeof(uint64_t)); left && !r->failed; --left) {
    string key = text(r);
    reader shader = within(text(r));
    uint32_t flags = 0;
    const uint8_t *at = take(&shader, sizeof flags);
    if (at) memcpy(&flags, at, sizeof flags);
    uint64_t words = count_of(&shader, sizeof(uint32_t));
    at = take(&shader, words * sizeof(uint32_t));
    if (shader.failed) return damaged(problem);
    for (size_t n = 0; n < module->count; ++n)
      if (is(key, module->kernels[n].name) && !module->kernels[n].code) {
        module->kernels[n].flags = flags;
        module->kernels[n].code_bytes = (size_t)words * sizeof(uint32_t);
        module->kernels[n].code = copied(memory, at, module->kernels[n].code_bytes);
        break;
      }
  }
  return r->failed ? damaged(problem) : ODTC_OK;
}

static odtc_code read_module(string content, odtc_device_module *module, odtc_problem *problem) {
  reader r = within(content);
  string head = text(&r);
  for (const odtc_gpu_interface *const *each = ODTC_GPU_INTERFACES; *each; ++each)
    if (is(head, (*each)->module)) module->interface = *each;
  if (!module->interface)
    return odtc_fail(problem, ODTC_UNSUPPORTED, "this runtime cannot run kernels of %.*s",
                     (int)(head.bytes < 100 ? head.bytes : 100), head.at);
  room memory = {module->memory = malloc(content.bytes + sizeof(uint64_t))};
  if (!memory.at) return odtc_fail(problem, ODTC_NO_MEMORY, "there is no memory for the kernels of the library");
  if (read_kernels(&r, &memory, module, problem)) return problem->code;
  if (is(head, "cl") ? read_source(&r, module, problem) : read_shaders(&r, &memory, module, problem))
    return problem->code;
  for (size_t n = 0; n < module->count; ++n)
    if (!module->kernels[n].code)
      return odtc_fail(problem, ODTC_DAMAGED, "the library has no code of the kernel %.100s", module->kernels[n].name);
  return ODTC_OK;
}

odtc_code odtc_device_module_read(const uint8_t *modules, size_t bytes, odtc_device_module *module,
                                  odtc_problem *problem) {
  reader r = {modules, modules + bytes, 0};
  *module = (odtc_device_module){0};
  uint64_t places = count_of(&r, sizeof(uint64_t));
  take(&r, places * sizeof(uint64_t));
  take(&r, count_of(&r, sizeof(uint64_t)) * sizeof(uint64_t));
  for (uint64_t n = 0; n + 1 < places && !r.failed; ++n) {
    string kind = text(&r);
    if (is(kind, "_lib")) continue;
    string content = text(&r);
    if (!r.failed && (is(kind, "opencl") || is(kind, "vulkan"))) return read_module(content, module, problem);
  }
  return r.failed ? damaged(problem)
                  : odtc_fail(problem, ODTC_MISFIT, "the library has no kernels for a GPU");
}

void odtc_device_module_end(odtc_device_module *module) {
  free(module->kernels);
  free(module->sizes);
  free(module->memory);
  *module = (odtc_device_module){0};
}
