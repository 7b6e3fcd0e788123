#include "tensor_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"

static const struct {
  const char *name;
  unsigned code, bits;
} DTYPES[] = {
    {"BOOL", 6, 8}, {"I8", 0, 8},   {"U8", 1, 8},   {"I16", 0, 16}, {"U16", 1, 16}, {"I32", 0, 32},
    {"U32", 1, 32}, {"I64", 0, 64}, {"U64", 1, 64}, {"F16", 2, 16}, {"F32", 2, 32}, {"F64", 2, 64},
};

static odtc_code no_header(odtc_problem *problem) {
  return odtc_fail(problem, ODTC_DAMAGED, "the header of the tensors cannot be read");
}

static void read_dtype(odtc_json *json, odtc_entry *entry) {
  const char *name = odtc_json_string(json);
  for (size_t n = 0; name && n < sizeof DTYPES / sizeof *DTYPES; ++n)
    if (!strcmp(DTYPES[n].name, name)) {
      entry->code = DTYPES[n].code, entry->bits = DTYPES[n].bits;
      return;
    }
  json->at = NULL;
}

static void read_shape(odtc_json *json, odtc_entry *entry) {
  odtc_json_expect(json, '[');
  entry->rank = 0;
  if (odtc_json_is(json, ']')) return;
  do {
    if (entry->rank == ODTC_MOST_RANK) json->at = NULL;
    if (!json->at) return;
    entry->shape[entry->rank++] = (int64_t)odtc_json_natural(json);
  } while (odtc_json_is(json, ','));
  odtc_json_expect(json, ']');
}

/* What a tensor is, and where it lies after the header. */
static void read_entry(odtc_json *json, odtc_entry *entry, uint64_t place[2]) {
  int seen = 0;
  odtc_json_expect(json, '{');
  do {
    const char *key = odtc_json_string(json);
    odtc_json_expect(json, ':');
    if (!key) return;
    if (!strcmp(key, "dtype")) {
      seen |= 1;
      read_dtype(json, entry);
    } else if (!strcmp(key, "shape")) {
      seen |= 2;
      read_shape(json, entry);
    } else if (!strcmp(key, "data_offsets")) {
      seen |= 4;
      odtc_json_expect(json, '[');
      place[0] = odtc_json_natural(json);
      odtc_json_expect(json, ',');
      place[1] = odtc_json_natural(json);
      odtc_json_expect(json, ']');
    } else {
      json->at = NULL;
    }
  } while (odtc_json_is(json, ','));
  odtc_json_expect(json, '}');
  if (seen != 7) json->at = NULL;
}

/* Texts by name. */
static odtc_code read_metadata(odtc_json *json, odtc_listener listener, odtc_problem *problem) {
  odtc_json_expect(json, '{');
  if (odtc_json_is(json, '}')) return ODTC_OK;
  do {
    const char *name = odtc_json_string(json);
    odtc_json_expect(json, ':');
    const char *text = odtc_json_string(json);
    if (!name || !text) return no_header(problem);
    if (listener.hear && listener.hear(listener.with, name, text, problem)) return problem->code;
  } while (odtc_json_is(json, ','));
  odtc_json_expect(json, '}');
  return json->at ? ODTC_OK : no_header(problem);
}

static odtc_code read_tensor(odtc_json *json, const char *name, odtc_pages body,
                             odtc_listener listener, odtc_problem *problem) {
  odtc_entry entry = {.name = name};
  uint64_t place[2] = {0, 0};
  read_entry(json, &entry, place);
  if (!json->at) return no_header(problem);
  entry.bytes = odtc_tensor_bytes(entry.shape, entry.rank, entry.bits);
  if (place[0] > place[1] || place[1] > body.bytes || entry.bytes != place[1] - place[0])
    return odtc_fail(problem, ODTC_DAMAGED, "tensor %.100s does not fit its place in the file", name);
  entry.data = body.at + place[0];
  return listener.take(listener.with, &entry, problem);
}

static odtc_code read_entries(odtc_json *json, odtc_pages body, odtc_listener listener,
                              odtc_problem *problem) {
  odtc_json_expect(json, '{');
  if (odtc_json_is(json, '}')) return ODTC_OK;
  do {
    const char *name = odtc_json_string(json);
    odtc_json_expect(json, ':');
    if (!name) return no_header(problem);
    if (strcmp(name, "__metadata__") ? read_tensor(json, name, body, listener, problem)
                                     : read_metadata(json, listener, problem))
      return problem->code;
  } while (odtc_json_is(json, ','));
  odtc_json_expect(json, '}');
  return json->at ? ODTC_OK : no_header(problem);
}

odtc_code odtc_tensor_file_read(odtc_pages file, odtc_listener listener, odtc_problem *problem) {
  uint64_t length = 0;
  if (file.bytes < sizeof length) return no_header(problem);
  memcpy(&length, file.at, sizeof length);
  if (length > file.bytes - sizeof length) return no_header(problem);
  char *strings = malloc((size_t)length + 1);
  if (!strings) return odtc_fail(problem, ODTC_NO_MEMORY, "there is no memory for a header");
  uint8_t *text = file.at + sizeof length;
  odtc_json json = {(const char *)text, (const char *)text + length, strings};
  odtc_pages body = {text + length, file.bytes - sizeof length - (size_t)length};
  odtc_code code = read_entries(&json, body, listener, problem);
  free(strings);
  return code;
}

int odtc_entry_fits(const odtc_tensor *tensor, const odtc_entry *entry) {
  return tensor->code == (int)entry->code && tensor->bits == (int)entry->bits &&
         (size_t)tensor->rank == entry->rank &&
         (!entry->rank || !memcmp(tensor->shape, entry->shape, entry->rank * sizeof *entry->shape));
}

/* Such as `float32 [8, 3]`, as far as there is room. */
static void say_type(char *out, size_t room, int code, int bits, size_t rank, const int64_t *shape) {
  static const char *const KINDS[] = {"int", "uint", "float"};
  size_t used = (size_t)(code == 6 ? snprintf(out, room, "bool [")
                                   : snprintf(out, room, "%s%d [", KINDS[code % 3], bits));
  for (size_t n = 0; n < rank && used < room; ++n)
    used += (size_t)snprintf(out + used, room - used, "%s%lld", n ? ", " : "", (long long)shape[n]);
  if (used < room) snprintf(out + used, room - used, "]");
}

odtc_code odtc_entry_misfit(const odtc_tensor *tensor, const odtc_entry *entry,
                            odtc_problem *problem) {
  char found[96], wanted[96];
  say_type(found, sizeof found, (int)entry->code, (int)entry->bits, entry->rank, entry->shape);
  say_type(wanted, sizeof wanted, tensor->code, tensor->bits, (size_t)tensor->rank, tensor->shape);
  return odtc_fail(problem, ODTC_MISFIT, "%.100s is %s in the file; the step takes %s", entry->name,
                   found, wanted);
}
