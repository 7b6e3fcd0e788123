/* What TVM's client does with tensors of the device: allocate, copy, free. Its memory is the CPU's. */
#include <stdlib.h>
#include <string.h>

#include "functions.h"
#include "memory.h"

enum { FIRST_CODE = 9, CPU = 1 };
enum { COPY_ACK = 8 };

static int is_cpu(odtc_session *s, int32_t device_type) {
  if (device_type == CPU) return 1;
  odtc_refuse(s, "this server drives the CPU, not a device of type %d", (int)device_type);
  return 0;
}

uint64_t odtc_remote_bytes(const odtc_remote_tensor *t) {
  uint64_t count = ((uint64_t)t->bits * t->lanes + 7) / 8;
  for (int32_t n = 0; n < t->rank; ++n)
    if (t->shape[n] < 0 || __builtin_mul_overflow(count, (uint64_t)t->shape[n], &count))
      return UINT64_MAX;
  return count;
}

uint8_t *odtc_remote_place(odtc_session *s, const odtc_remote_tensor *t, uint64_t bytes) {
  if (!is_cpu(s, t->device_type)) return NULL;
  odtc_object *memory = odtc_object_of(s, (int64_t)t->memory, ODTC_MEMORY);
  if (!memory) return NULL;
  if (t->offset <= memory->bytes && bytes <= memory->bytes - t->offset)
    return (uint8_t *)memory->at + t->offset;
  odtc_refuse(s, "%llu bytes from %llu on are not in a memory of %llu", (unsigned long long)bytes,
              (unsigned long long)t->offset, (unsigned long long)memory->bytes);
  return NULL;
}

void odtc_copy_to_device(odtc_session *s) {
  odtc_remote_tensor tensor;
  uint64_t bytes;
  odtc_read_tensor(&s->stream, &tensor);
  odtc_stream_read(&s->stream, &bytes, sizeof bytes);
  uint8_t *to = odtc_remote_place(s, &tensor, bytes);
  if (!to || s->stream.ended) return;
  odtc_stream_read(&s->stream, to, (size_t)bytes);
  odtc_write_value(&s->stream, &(odtc_result){VALUE_NONE});
}

void odtc_copy_from_device(odtc_session *s) {
  odtc_remote_tensor tensor;
  uint64_t bytes;
  odtc_read_tensor(&s->stream, &tensor);
  odtc_stream_read(&s->stream, &bytes, sizeof bytes);
  const uint8_t *from = odtc_remote_place(s, &tensor, bytes);
  if (!from || s->stream.ended) return;
  int32_t code = COPY_ACK;
  uint64_t packet = sizeof code + bytes;
  odtc_stream_write(&s->stream, &packet, sizeof packet);
  odtc_stream_write(&s->stream, &code, sizeof code);
  odtc_stream_write(&s->stream, from, (size_t)bytes);
}

static void allocate(odtc_session *s, uint64_t bytes, odtc_result *result) {
  void *at = bytes > SIZE_MAX / 2 ? NULL : odtc_allocate((size_t)bytes);
  if (!at) {
    odtc_refuse(s, "there is no memory for a tensor of %llu bytes", (unsigned long long)bytes);
    return;
  }
  memset(at, 0, (size_t)bytes);
  result->type = VALUE_HANDLE;
  if (!(result->number = odtc_keep(s, ODTC_MEMORY, at, bytes))) free(at);
}

static int32_t device_type(const odtc_value *value) { return (int32_t)value->number; }

static void get_function(odtc_session *s, const odtc_value *v, odtc_result *result) {
  const odtc_named_function *found = odtc_find_function(v->bytes);
  if (!found) return; /* None: the client says that there is none */
  result->type = VALUE_HANDLE;
  result->number = odtc_keep(s, ODTC_A_FUNCTION, (void *)(uintptr_t)found, 0);
}

static void free_handle(odtc_session *s, const odtc_value *v, odtc_result *result) {
  (void)result;
  if (v->number > 0 && (uint64_t)v->number <= s->room) odtc_release(s->objects + v->number - 1);
}

static void nothing(odtc_session *s, const odtc_value *v, odtc_result *result) {
  (void)result;
  is_cpu(s, device_type(v));
}

/* Whether there is such a device, which is attribute 0; of others nothing is said. */
static void get_attribute(odtc_session *s, const odtc_value *v, odtc_result *result) {
  (void)s;
  if (!v[1].number)
    *result = (odtc_result){.type = VALUE_NUMBER, .number = device_type(v) == CPU};
}

static void allocate_bytes(odtc_session *s, const odtc_value *v, odtc_result *result) {
  if (is_cpu(s, device_type(v))) allocate(s, (uint64_t)v[1].number, result);
}

static void allocate_tensor(odtc_session *s, const odtc_value *v, odtc_result *result) {
  if (is_cpu(s, v->tensor.device_type)) allocate(s, odtc_remote_bytes(&v->tensor), result);
}

static void free_memory(odtc_session *s, const odtc_value *v, odtc_result *result) {
  (void)result;
  odtc_object *memory = odtc_object_of(s, v[1].number, ODTC_MEMORY);
  if (memory) odtc_release(memory);
}

static void copy_among(odtc_session *s, const odtc_value *v, odtc_result *result) {
  (void)result;
  uint64_t bytes = odtc_remote_bytes(&v[0].tensor);
  const uint8_t *from = odtc_remote_place(s, &v[0].tensor, bytes);
  uint8_t *to = from ? odtc_remote_place(s, &v[1].tensor, bytes) : NULL;
  if (to) memmove(to, from, (size_t)bytes);
}

/* By code, from the first on. A CPU has no streams: there is nothing to wait for. */
static const struct {
  const char *takes;
  void (*call)(odtc_session *, const odtc_value *, odtc_result *);
} CALLS[] = {
    {"s", get_function}, {"h", free_handle}, {"d", nothing},     {"di", get_attribute},
    {"diit", allocate_bytes}, {"dh", free_memory}, {"dh", nothing}, {"TTh", copy_among},
    {"T*", allocate_tensor},
};

int odtc_call_system(odtc_session *s, int32_t code, const odtc_values *values,
                     odtc_result *result) {
  int32_t n = code - FIRST_CODE;
  if (n < 0 || n >= (int32_t)(sizeof CALLS / sizeof *CALLS)) return 0;
  if (odtc_are_of(s, values, CALLS[n].takes)) CALLS[n].call(s, values->values, result);
  return 1;
}
