#include "text.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int has_room(odtc_text *text, size_t more) {
  if (text->failed) return 0;
  if (more < text->room - text->used) return 1;
  size_t room = 2 * (text->room + more) + 64;
  char *at = realloc(text->at, room);
  if (!at) return text->failed = 1, 0;
  text->at = at, text->room = room;
  return 1;
}

void odtc_text_put(odtc_text *text, const char *format, ...) {
  va_list list, again;
  va_start(list, format);
  va_copy(again, list);
  int length = vsnprintf(NULL, 0, format, list);
  if (length >= 0 && has_room(text, (size_t)length + 1)) {
    vsnprintf(text->at + text->used, (size_t)length + 1, format, again);
    text->used += (size_t)length;
  }
  va_end(again);
  va_end(list);
}

static void put_bytes(odtc_text *text, const char *bytes, size_t count) {
  if (!has_room(text, count + 1)) return;
  memcpy(text->at + text->used, bytes, count);
  text->at[text->used += count] = '\0';
}

/* The character that UTF-8 begins with, and its bytes; what is none counts as one byte. */
static uint32_t next_character(const unsigned char *at, size_t *bytes) {
  static const uint32_t LEAST[] = {0, 0x80, 0x800, 0x10000};
  size_t more = *at >= 0xF0 && *at < 0xF5 ? 3 : *at >= 0xE0 ? 2 : *at >= 0xC2 ? 1 : 0;
  uint32_t code = *at & (0x3F >> more);
  *bytes = 1;
  if (*at < 0x80) return *at;
  if (!more || *at >= 0xF5) return 0xFFFD;
  for (size_t n = 1; n <= more; ++n) {
    if ((at[n] & 0xC0) != 0x80) return 0xFFFD;
    code = code << 6 | (at[n] & 0x3F);
  }
  if (code < LEAST[more] || (code >= 0xD800 && code < 0xE000)) return 0xFFFD;
  *bytes = more + 1;
  return code;
}

void odtc_text_put_string(odtc_text *text, const char *string) {
  static const char NAMES[] = "\"\\bfnrt", MEANT[] = "\"\\\b\f\n\r\t";
  put_bytes(text, "\"", 1);
  for (size_t bytes; *string && !text->failed; string += bytes) {
    uint32_t code = next_character((const unsigned char *)string, &bytes);
    const char *known = code < 0x80 ? strchr(MEANT, (int)code) : NULL;
    if (known) {
      put_bytes(text, (char[]){'\\', NAMES[known - MEANT]}, 2);
    } else if (code >= 0x20 && code < 0x7F) {
      put_bytes(text, string, 1);
    } else if (code < 0x10000) {
      odtc_text_put(text, "\\u%04x", code);
    } else {
      odtc_text_put(text, "\\u%04x\\u%04x", 0xD7C0 + (code >> 10), 0xDC00 | (code & 0x3FF));
    }
  }
  put_bytes(text, "\"", 1);
}

void odtc_make_utf8(char *string) {
  for (size_t bytes; *string; string += bytes)
    if (next_character((const unsigned char *)string, &bytes) == 0xFFFD && bytes == 1) *string = '?';
}

void odtc_text_end(odtc_text *text) {
  free(text->at);
  *text = (odtc_text){0};
}
