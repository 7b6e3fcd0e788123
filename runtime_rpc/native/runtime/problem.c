#include "problem.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

odtc_code odtc_fail(odtc_problem *problem, odtc_code code, const char *format, ...) {
  va_list list;
  va_start(list, format);
  vsnprintf(problem->text, sizeof problem->text, format, list);
  va_end(list);
  return problem->code = code;
}

odtc_code odtc_name_file(odtc_problem *problem, const char *path) {
  enum { MOST_SHOWN = 200 };
  size_t length = strlen(path);
  odtc_problem plain = *problem;
  odtc_code code = problem->code;
  if (code != ODTC_DAMAGED && code != ODTC_MISFIT && code != ODTC_UNSUPPORTED) return code;
  if (!strncmp(plain.text, path, length < MOST_SHOWN ? length : MOST_SHOWN)) return code;
  return odtc_fail(problem, code, "%.*s: %.*s", MOST_SHOWN, path,
                   (int)(sizeof problem->text - MOST_SHOWN - 3), plain.text);
}
