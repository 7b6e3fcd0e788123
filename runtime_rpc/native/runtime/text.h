/* Text that grows, and what JSON makes of a string. */
#ifndef ODTC_TEXT_H
#define ODTC_TEXT_H

#include <stddef.h>

typedef struct {
  char *at; /* with a zero after it, once something was put there */
  size_t used, room;
  int failed; /* whether there was no memory for all of it */
} odtc_text;

void odtc_text_put(odtc_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A string in quotes, in ASCII alone. */
void odtc_text_put_string(odtc_text *text, const char *string);
/* Puts a question mark in the place of each byte that is no part of a character of UTF-8. */
void odtc_make_utf8(char *string);
void odtc_text_end(odtc_text *text);

#endif
