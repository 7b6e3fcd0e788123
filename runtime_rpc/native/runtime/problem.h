/* What went wrong: a code, and a sentence. */
#ifndef ODTC_PROBLEM_H
#define ODTC_PROBLEM_H

#include "odtc.h"

typedef struct {
  odtc_code code;
  char text[512];
} odtc_problem;

/* Notes a problem, and returns its code. */
odtc_code odtc_fail(odtc_problem *problem, odtc_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Puts the path of a file before what is wrong with its content, unless it is there; leaves other problems. */
odtc_code odtc_name_file(odtc_problem *problem, const char *path);

#endif
