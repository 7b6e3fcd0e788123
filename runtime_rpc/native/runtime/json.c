#include "json.h"

static int ended(const odtc_json *json) { return !json->at || json->at == json->end; }

static void skip_blanks(odtc_json *json) {
  while (!ended(json) &&
         (*json->at == ' ' || *json->at == '\n' || *json->at == '\t' || *json->at == '\r'))
    ++json->at;
}

int odtc_json_is(odtc_json *json, char character) {
  skip_blanks(json);
  if (ended(json) || *json->at != character) return 0;
  ++json->at;
  return 1;
}

void odtc_json_expect(odtc_json *json, char character) {
  if (!odtc_json_is(json, character)) json->at = NULL;
}

uint64_t odtc_json_natural(odtc_json *json) {
  uint64_t value = 0;
  skip_blanks(json);
  const char *first = json->at;
  for (; !ended(json) && *json->at >= '0' && *json->at <= '9'; ++json->at) {
    if (value > (INT64_MAX - 9) / 10) return json->at = NULL, 0;
    value = 10 * value + (uint64_t)(*json->at - '0');
  }
  if (json->at == first) json->at = NULL;
  return value;
}

/* The four digits of an escape; -1 where there are none. */
static int32_t hexadecimal(odtc_json *json) {
  int32_t value = 0;
  for (int n = 0; n < 4; ++n, ++json->at) {
    if (json->at == json->end) return -1;
    char c = *json->at;
    int digit = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                       : -1;
    if (digit < 0) return -1;
    value = 16 * value + digit;
  }
  return value;
}

/* The character of an escape after `\u`, which may be two; -1 where it is none. */
static int32_t code_point(odtc_json *json) {
  int32_t first = hexadecimal(json);
  if (first < 0xD800 || first > 0xDFFF) return first;
  if (first > 0xDBFF || json->end - json->at < 6 || json->at[0] != '\\' || json->at[1] != 'u')
    return -1;
  json->at += 2;
  int32_t second = hexadecimal(json);
  if (second < 0xDC00 || second > 0xDFFF) return -1;
  return 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
}

/* UTF-8 has at most four bytes where the escape has six, or twelve. */
static char *encoded(char *to, int32_t code) {
  if (code < 0x80) return *to = (char)code, to + 1;
  int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  static const int LEADS[] = {0, 0xC0, 0xE0, 0xF0};
  *to++ = (char)(LEADS[more] | code >> 6 * more);
  while (more--) *to++ = (char)(0x80 | (code >> 6 * more & 0x3F));
  return to;
}

/* The character after a backslash; -1 where it is none, or a zero. */
static int32_t escaped(odtc_json *json) {
  static const char NAMES[] = "\"\\/bfnrt", MEANT[] = "\"\\/\b\f\n\r\t";
  if (json->at == json->end) return -1;
  char c = *json->at++;
  if (c == 'u') {
    int32_t code = code_point(json);
    return code ? code : -1;
  }
  for (int n = 0; NAMES[n]; ++n)
    if (NAMES[n] == c) return MEANT[n];
  return -1;
}

const char *odtc_json_string(odtc_json *json) {
  odtc_json_expect(json, '"');
  char *first = json->strings, *to = first;
  while (!ended(json) && *json->at != '"') {
    if ((unsigned char)*json->at < 0x20) return json->at = NULL, NULL;
    if (*json->at != '\\') {
      *to++ = *json->at++;
      continue;
    }
    ++json->at;
    int32_t code = escaped(json);
    if (code < 0) return json->at = NULL, NULL;
    to = encoded(to, code);
  }
  if (ended(json)) return json->at = NULL, NULL;
  ++json->at; /* the quote in front made room for the zero */
  *to++ = '\0';
  json->strings = to;
  return first;
}
