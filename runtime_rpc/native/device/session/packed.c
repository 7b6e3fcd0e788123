#include "packed.h"

#include <stdlib.h>
#include <string.h>

enum { RETURN = 4, EXCEPTION = 5 };

static int64_t read_number(odtc_stream *s) {
  int64_t number;
  odtc_stream_read(s, &number, sizeof number);
  return number;
}

void odtc_read_tensor(odtc_stream *s, odtc_remote_tensor *tensor) {
  *tensor = (odtc_remote_tensor){.memory = (uint64_t)read_number(s)};
  odtc_stream_read(s, &tensor->device_type, sizeof tensor->device_type);
  odtc_stream_read(s, &tensor->device_id, sizeof tensor->device_id);
  odtc_stream_read(s, &tensor->rank, sizeof tensor->rank);
  odtc_stream_read(s, &tensor->code, sizeof tensor->code);
  odtc_stream_read(s, &tensor->bits, sizeof tensor->bits);
  odtc_stream_read(s, &tensor->lanes, sizeof tensor->lanes);
  if (tensor->rank < 0 || tensor->rank > MOST_TENSOR_RANK) s->ended = 1, tensor->rank = 0;
  odtc_stream_read(s, tensor->shape, (size_t)tensor->rank * sizeof *tensor->shape);
  tensor->offset = (uint64_t)read_number(s);
}

/* Text or bytes with their length in front, and a zero after them. */
static const char *read_bytes(odtc_stream *s, odtc_value *value) {
  uint64_t count = (uint64_t)read_number(s);
  if (count > s->left) return s->ended = 1, "a text is longer than its packet";
  value->bytes = malloc((size_t)count + 1);
  if (!value->bytes) return "there is no memory for what was sent";
  value->count = (size_t)count;
  odtc_stream_read(s, value->bytes, value->count);
  value->bytes[value->count] = '\0';
  return NULL;
}

/* TVM's objects say what they are once more: only text and bytes come so, and what this server gave. */
static const char *read_object(odtc_stream *s, odtc_value *value) {
  uint32_t type;
  odtc_stream_read(s, &type, sizeof type);
  if (type != VALUE_TEXT_OBJECT && type != VALUE_BYTES_OBJECT)
    return "an argument is of a type that this server does not take";
  value->type = type == VALUE_TEXT_OBJECT ? VALUE_TEXT : VALUE_BYTES;
  return read_bytes(s, value);
}

static const char *read_value(odtc_stream *s, odtc_value *value) {
  *value = (odtc_value){0};
  odtc_stream_read(s, &value->type, sizeof value->type);
  switch (value->type) {
    case VALUE_NONE: return NULL;
    case VALUE_NUMBER:
    case VALUE_BOOL:
    case VALUE_HANDLE:
    case VALUE_DTYPE:
    case VALUE_DEVICE:
    case VALUE_FUNCTION:
    case VALUE_MODULE: value->number = read_number(s); return NULL;
    case VALUE_REAL: odtc_stream_read(s, &value->real, sizeof value->real); return NULL;
    case VALUE_TENSOR: odtc_read_tensor(s, &value->tensor); return NULL;
    case VALUE_TEXT:
    case VALUE_BYTES: return read_bytes(s, value);
    case VALUE_SMALL_TEXT:
    case VALUE_SMALL_BYTES:
    case VALUE_TEXT_OBJECT:
    case VALUE_BYTES_OBJECT: return read_object(s, value);
    default: return "an argument is of a type that this server does not take";
  }
}

int odtc_read_values(odtc_stream *s, odtc_values *values, const char **why) {
  int32_t count;
  odtc_stream_read(s, &count, sizeof count);
  values->count = 0;
  *why = count < 0 || count > MOST_VALUES ? "a call has too many arguments" : NULL;
  while (!*why && values->count < count && !s->ended)
    *why = read_value(s, &values->values[values->count++]);
  return *why != NULL;
}

void odtc_free_values(odtc_values *values) {
  for (int32_t n = 0; n < values->count; ++n) free(values->values[n].bytes);
  values->count = 0;
}

static int has_bytes(const odtc_result *r) { return r->type == VALUE_TEXT || r->type == VALUE_BYTES; }

static uint64_t bytes_of(const odtc_result *r) {
  return sizeof r->type + (r->type == VALUE_NONE ? 0 : sizeof r->number) +
         (has_bytes(r) ? r->count : 0);
}

static void write_one(odtc_stream *s, const odtc_result *r) {
  odtc_stream_write(s, &r->type, sizeof r->type);
  if (r->type == VALUE_NONE) return;
  if (has_bytes(r)) {
    uint64_t count = r->count;
    odtc_stream_write(s, &count, sizeof count);
    odtc_stream_write(s, r->bytes, r->count);
  } else if (r->type == VALUE_REAL) {
    odtc_stream_write(s, &r->real, sizeof r->real);
  } else {
    odtc_stream_write(s, &r->number, sizeof r->number);
  }
}

static void write_values(odtc_stream *s, int32_t code, const odtc_result *values, int32_t count) {
  uint64_t bytes = sizeof code + sizeof count;
  for (int32_t n = 0; n < count; ++n) bytes += bytes_of(values + n);
  odtc_stream_write(s, &bytes, sizeof bytes);
  odtc_stream_write(s, &code, sizeof code);
  odtc_stream_write(s, &count, sizeof count);
  for (int32_t n = 0; n < count; ++n) write_one(s, values + n);
}

void odtc_write_result(odtc_stream *s, const odtc_result *result) {
  /* The type that the client makes of it comes first. */
  int64_t type = result->type == VALUE_TEXT    ? VALUE_TEXT_OBJECT
                 : result->type == VALUE_BYTES ? VALUE_BYTES_OBJECT
                                              : result->type;
  odtc_result values[] = {{.type = VALUE_NUMBER, .number = type}, *result};
  /* Functions and modules go as the handles that they are. */
  if (type == VALUE_FUNCTION || type == VALUE_MODULE) values[1].type = VALUE_HANDLE;
  write_values(s, RETURN, values, 2);
}

void odtc_write_value(odtc_stream *s, const odtc_result *value) {
  write_values(s, RETURN, value, 1);
}

void odtc_write_failure(odtc_stream *s, const char *why) {
  odtc_result text = {.type = VALUE_TEXT, .bytes = why, .count = strlen(why)};
  write_values(s, EXCEPTION, &text, 1);
}
