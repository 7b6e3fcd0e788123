#include "functions.h"

#include <stdlib.h>
#include <string.h>

#include "kernels.h"
#include "recorder.h"

static const odtc_named_function *const TABLES[] = {ODTC_DEVICE_FUNCTIONS, ODTC_FILE_FUNCTIONS,
                                                    ODTC_PROGRAM_FUNCTIONS, ODTC_KERNEL_FUNCTIONS,
                                                    ODTC_THREAD_FUNCTIONS, ODTC_WEIGHTS_FUNCTIONS};

const odtc_named_function *odtc_find_function(const char *name) {
  for (size_t n = 0; n < sizeof TABLES / sizeof *TABLES; ++n)
    for (const odtc_named_function *f = TABLES[n]; f->name; ++f)
      if (!strcmp(f->name, name)) return f;
  return NULL;
}

static void call_named(odtc_session *s, const void *at, const odtc_values *values,
                       odtc_result *result) {
  const odtc_named_function *function = at;
  if (odtc_are_of(s, values, function->takes)) function->call(s, values->values, result);
}

static const struct {
  odtc_kind kind;
  void (*call)(odtc_session *, const void *, const odtc_values *, odtc_result *);
} CALLED[] = {
    {ODTC_A_KERNEL, odtc_call_kernel}, {ODTC_A_TIMER, odtc_time_kernel}, {ODTC_A_FUNCTION, call_named}};

void odtc_call_handle(odtc_session *s, int64_t handle, const odtc_values *values,
                      odtc_result *result) {
  size_t n = 0;
  odtc_kind kind =
      handle > 0 && (uint64_t)handle <= s->room ? s->objects[handle - 1].kind : ODTC_NOTHING;
  while (CALLED[n].kind != kind && CALLED[n].kind != ODTC_A_FUNCTION) ++n;
  const odtc_object *object = odtc_object_of(s, handle, CALLED[n].kind);
  if (object) CALLED[n].call(s, object->at, values, result);
}

static const struct {
  char letter;
  const char *what;
  int32_t types[2];
} KINDS[] = {
    {'i', "an integer", {VALUE_NUMBER, VALUE_BOOL}}, {'f', "a real number", {VALUE_REAL}},
    {'s', "a text", {VALUE_TEXT}},                   {'b', "bytes", {VALUE_BYTES}},
    {'h', "a handle", {VALUE_HANDLE}},               {'d', "a device", {VALUE_DEVICE}},
    {'t', "a type", {VALUE_DTYPE}},                  {'T', "a tensor", {VALUE_TENSOR}},
    {'m', "a module", {VALUE_MODULE}},
};

static int is_of(odtc_session *s, const odtc_value *value, char letter, int32_t number) {
  size_t n = 0;
  while (KINDS[n].letter != letter) ++n;
  if (value->type == KINDS[n].types[0] || (value->type && value->type == KINDS[n].types[1]))
    return 1;
  /* Where there is nothing to wait for, there is no handle of it either. */
  if (letter == 'h' && value->type == VALUE_NONE) return 1;
  odtc_refuse(s, "argument %d is to be %s", (int)number, KINDS[n].what);
  return 0;
}

int odtc_are_of(odtc_session *s, const odtc_values *values, const char *takes) {
  int32_t n = 0;
  for (; takes[n] && takes[n] != '*'; ++n) {
    if (n == values->count) break;
    if (!is_of(s, values->values + n, takes[n], n)) return 0;
  }
  if (takes[n] == '*' || (!takes[n] && n == values->count)) return 1;
  odtc_refuse(s, "a call of %d arguments has %d", (int)strlen(takes), (int)values->count);
  return 0;
}

void odtc_release(odtc_object *object) {
  if (object->kind == ODTC_MEMORY) free(object->at);
  if (object->kind == ODTC_TRAINER) odtc_close(object->at);
  if (object->kind == ODTC_RECORDER) {
    size_t bytes;
    free(odtc_recorded(object->at, &bytes));
  }
  if (object->kind == ODTC_A_MODULE) odtc_leave_module(object->at);
  if (object->kind == ODTC_A_KERNEL || object->kind == ODTC_A_TIMER) odtc_free_kernel(object->at);
  *object = (odtc_object){ODTC_NOTHING};
}
