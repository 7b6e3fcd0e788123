/* A reader of JSON that goes forward only, as far as the header of a safetensors file needs it. */
#ifndef ODTC_JSON_H
#define ODTC_JSON_H

#include <stddef.h>
#include <stdint.h>

/* Text that is left; `at` is NULL once something was not as it was asked for. */
typedef struct {
  const char *at, *end;
  char *strings; /* room for what strings become, at least as much as there is text */
} odtc_json;

/* Whether the next character is this one, which is then passed. */
int odtc_json_is(odtc_json *json, char character);
/* The same, where it has to be. */
void odtc_json_expect(odtc_json *json, char character);
/* A string as UTF-8 with a zero at its end; NULL where there is none, or it has a zero inside. */
const char *odtc_json_string(odtc_json *json);
/* A number of digits alone. */
uint64_t odtc_json_natural(odtc_json *json);

#endif
