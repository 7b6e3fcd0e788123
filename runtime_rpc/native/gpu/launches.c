#define _GNU_SOURCE
#include "launches.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* What host code notes to while it runs: it says of itself nothing but the name of a kernel. */
static struct {
  pthread_mutex_t lock;
  const odtc_program *program;
  const odtc_device_module *module;
  odtc_launches *noted;
  odtc_problem *problem;
} now = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Addresses of tensors that no call gets to see: the number of the place, in units that are aligned. */
static void *address_of(uint32_t place) { return (void *)(((uintptr_t)place + 1) * ODTC_ALIGNMENT); }

static int place_at(const void *address, uint32_t *place) {
  uintptr_t at = (uintptr_t)address;
  if (at % ODTC_ALIGNMENT || !at || at / ODTC_ALIGNMENT > now.program->place_count) return 0;
  *place = (uint32_t)(at / ODTC_ALIGNMENT - 1);
  return 1;
}

/* Host code looks a kernel up once, and keeps what it was given while its library is loaded: its own text of the
   name. */
static int look_up(void *context, const char *name, void **found) {
  (void)context;
  *found = (void *)(uintptr_t)name;
  return 0;
}

static int init_once(void **at, int (*init)(void **)) { return *at ? 0 : init(at); }

/* Makes room for more; NULL where there is no memory. */
static void *grown(void *at, size_t size, size_t count, size_t more, size_t *room) {
  if (at && count + more <= *room) return at;
  size_t wanted = 2 * (count + more) + 64;
  void *moved = realloc(at, wanted * size);
  if (moved) *room = wanted;
  return moved;
}

static int has_room(odtc_launches *l, const odtc_gpu_kernel *kernel) {
  void *launches = grown(l->launches, sizeof *l->launches, l->count, 1, &l->room);
  if (launches) l->launches = launches;
  void *places = grown(l->places, sizeof *l->places, l->place_count, kernel->buffers, &l->place_room);
  if (places) l->places = places;
  void *numbers = grown(l->numbers, sizeof *l->numbers, l->number_count, kernel->numbers, &l->number_room);
  if (numbers) l->numbers = numbers;
  return launches && places && numbers;
}

static uint64_t bytes_of(const struct odtc_gpu_type *type, const odtc_kernel_value *value) {
  enum { FLOAT = 2 };
  uint64_t bytes = 0;
  float narrow = (float)value->value.real;
  if (type->code == FLOAT && type->bits == 32)
    memcpy(&bytes, &narrow, sizeof narrow);
  else
    memcpy(&bytes, &value->value, type->bits / 8);
  return bytes;
}

static int refuse(const char *kernel, const char *why) {
  if (!now.problem->code)
    odtc_fail(now.problem, ODTC_UNSUPPORTED, "the kernel %.100s is launched with %s", kernel, why);
  return -1;
}

static int note(const odtc_gpu_kernel *kernel, const odtc_sizes *sizes, const odtc_kernel_value *values,
                int32_t count) {
  odtc_launches *l = now.noted;
  if (count < 0 || (uint32_t)count < kernel->buffers + kernel->numbers + sizes->count)
    return refuse(kernel->name, "too few arguments");
  if (!has_room(l, kernel)) {
    odtc_fail(now.problem, ODTC_NO_MEMORY, "there is no memory for %zu launches", l->count);
    return -1;
  }
  odtc_noted_launch *launch = l->launches + l->count;
  *launch = (odtc_noted_launch){.kernel = (uint32_t)(kernel - now.module->kernels),
                                .places = (uint32_t)l->place_count,
                                .numbers = (uint32_t)l->number_count,
                                .groups = {1, 1, 1},
                                .items = {1, 1, 1}};
  for (uint32_t n = 0; n < kernel->buffers; ++n)
    if (!place_at(values[n].value.pointer, l->places + l->place_count++))
      return refuse(kernel->name, "memory that is not a tensor of the program");
  values += kernel->buffers;
  for (uint32_t n = 0; n < kernel->numbers; ++n)
    l->numbers[l->number_count++] = bytes_of(kernel->types + n, values + n);
  values += kernel->numbers;
  for (uint32_t n = 0; n < sizes->count; ++n) {
    int64_t size = values[n].value.number;
    if (size < 1 || size > INT32_MAX) return refuse(kernel->name, "a size out of range");
    uint32_t *of = sizes->of[n] < 3 ? launch->groups + sizes->of[n] : launch->items + sizes->of[n] - 3;
    *of = (uint32_t)size;
  }
  ++l->count;
  return 0;
}

/* What host code calls to launch a kernel, and before that to choose a device. */
static int call(void *function, const odtc_kernel_value *values, int32_t count, odtc_kernel_value *result) {
  const char *name = function;
  *result = (odtc_kernel_value){0};
  if (!now.module) return -1;
  if (!strcmp(name, "__tvm_set_device")) return 0;
  for (size_t n = 0; n < now.module->count; ++n)
    if (!strcmp(now.module->kernels[n].name, name))
      return note(now.module->kernels + n, now.module->sizes + n, values, count);
  return refuse(name, "no code: the library has none of it");
}

odtc_code odtc_connect_host_code(const char *what, void *library, odtc_problem *problem) {
  const struct {
    const char *name;
    void *function;
  } calls[] = {{"__TVMFFIEnvModLookupFromImports", (void *)look_up},
               {"__TVMFFIFunctionCall", (void *)call},
               {"__TVMFFIHandleInitOnce", (void *)init_once}};
  /* Nobody would fill it in: what kernels need beside their arguments, they are given as one. */
  if (dlsym(library, "__TVMBackendAllocWorkspace"))
    return odtc_fail(problem, ODTC_UNSUPPORTED, "the kernels of %.200s call TVMBackendAllocWorkspace", what);
  for (size_t n = 0; n < sizeof calls / sizeof *calls; ++n) {
    void **place = dlsym(library, calls[n].name);
    if (!place) continue;
    void *found = __atomic_load_n(place, __ATOMIC_SEQ_CST);
    if (found && found != calls[n].function)
      return odtc_fail(problem, ODTC_MISFIT, "another runtime of this process runs the kernels of %.200s: give it a copy",
                       what);
    __atomic_store_n(place, calls[n].function, __ATOMIC_SEQ_CST);
  }
  return ODTC_OK;
}

static odtc_code note_call(const odtc_program *p, const odtc_kernel *kernels, const odtc_call *of,
                           odtc_kernel_tensor *tensors, odtc_kernel_value *values) {
  enum { ON_GPU = 4 }; /* OpenCL, as DLPack numbers it; host code gives it to nobody but us */
  odtc_kernel_value result = {0};
  for (uint32_t n = 0; n < of->operands; ++n) {
    const uint32_t number = p->operands[of->first + n];
    const odtc_place *place = p->places + number;
    tensors[n] = (odtc_kernel_tensor){.data = address_of(number), .device_type = ON_GPU, .rank = (int32_t)place->rank,
                                      .code = (uint8_t)place->code, .bits = (uint8_t)place->bits, .lanes = 1,
                                      .shape = (int64_t *)p->dims + place->dims, .byte_offset = place->offset};
    values[n] = (odtc_kernel_value){.type = ODTC_KERNEL_TENSOR, .value.pointer = tensors + n};
  }
  if (kernels[of->kernel](NULL, values, (int32_t)of->operands, &result) && !now.problem->code)
    odtc_fail(now.problem, ODTC_KERNEL, "the host code of %.100s failed", p->text + p->kernels[of->kernel]);
  return now.problem->code;
}

static odtc_code note_all(const odtc_program *p, const odtc_kernel *kernels) {
  odtc_launches *l = now.noted;
  uint32_t most = 0;
  for (size_t n = 0; n < p->call_count; ++n)
    if (p->calls[n].operands > most) most = p->calls[n].operands;
  odtc_kernel_tensor *tensors = calloc((size_t)most + 1, sizeof *tensors);
  odtc_kernel_value *values = calloc((size_t)most + 1, sizeof *values);
  l->first = calloc(p->call_count + 1, sizeof *l->first);
  if (!tensors || !values || !l->first)
    odtc_fail(now.problem, ODTC_NO_MEMORY, "there is no memory for the launches of %zu calls", p->call_count);
  for (size_t n = 0; n < p->call_count && !now.problem->code; ++n) {
    l->first[n] = (uint32_t)l->count;
    note_call(p, kernels, p->calls + n, tensors, values);
  }
  if (!now.problem->code) l->first[p->call_count] = (uint32_t)l->count;
  free(tensors), free(values);
  return now.problem->code;
}

odtc_code odtc_note_launches(const odtc_program *program, const odtc_kernel *kernels, const odtc_device_module *module,
                             odtc_launches *noted, odtc_problem *problem) {
  *noted = (odtc_launches){0};
  pthread_mutex_lock(&now.lock);
  now.program = program, now.module = module, now.noted = noted, now.problem = problem;
  odtc_code code = note_all(program, kernels);
  now.program = NULL, now.module = NULL, now.noted = NULL, now.problem = NULL;
  pthread_mutex_unlock(&now.lock);
  return code;
}

/* Bytes of the buffer that a place lies in, at most. */
static uint64_t bytes_around(const odtc_program *p, const odtc_place *place) {
  uint64_t most = 0;
  if (place->region == ODTC_IN_ARGUMENT) return p->every_argument[place->number].bytes;
  if (place->region == ODTC_IN_CONSTANT) return p->constant_bytes;
  for (size_t n = 0; n < p->every_function_count; ++n) {
    const odtc_function *of = p->every_function + n;
    uint64_t bytes = place->region == ODTC_IN_ARENA ? of->arena_bytes : of->result_bytes;
    if (bytes > most) most = bytes;
  }
  return most;
}

static int are_together(const odtc_place *a, const odtc_place *b) {
  return a->region == b->region && (a->region != ODTC_IN_ARGUMENT || a->number == b->number);
}

static void add_uses(const odtc_program *p, const uint32_t *places, uint32_t count, odtc_gpu_use *uses) {
  for (uint32_t n = 0; n < count; ++n) {
    const odtc_place *place = p->places + places[n];
    uint64_t bytes = bytes_around(p, place);
    if (bytes > uses[n].most_bytes) uses[n].most_bytes = bytes;
    for (uint32_t other = 0; other < count; ++other)
      if (other != n && are_together(place, p->places + places[other])) uses[n].is_alone = 0;
  }
}

odtc_code odtc_note_uses(const odtc_program *program, odtc_launches *l, odtc_device_module *module,
                         odtc_problem *problem) {
  size_t count = 0;
  for (size_t n = 0; n < module->count; ++n) count += module->kernels[n].buffers;
  odtc_gpu_use *uses = l->uses = calloc(count + 1, sizeof *uses);
  if (!uses) return odtc_fail(problem, ODTC_NO_MEMORY, "there is no memory for the launches of %zu kernels", module->count);
  for (size_t n = 0; n < count; ++n) uses[n].is_alone = 1;
  for (size_t n = 0; n < module->count; uses += module->kernels[n++].buffers) {
    module->kernels[n].uses = uses;
    for (size_t each = 0; each < l->count; ++each)
      if (l->launches[each].kernel == n)
        add_uses(program, l->places + l->launches[each].places, module->kernels[n].buffers, uses);
  }
  return ODTC_OK;
}

void odtc_launches_end(odtc_launches *noted) {
  free(noted->uses);
  free(noted->launches);
  free(noted->places);
  free(noted->numbers);
  free(noted->first);
  *noted = (odtc_launches){0};
}
