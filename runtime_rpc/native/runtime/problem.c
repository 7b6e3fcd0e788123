#include "problem.h"

#include <stdarg.h>
#include <stdio.h>

odtc_code odtc_fail(odtc_problem *problem, odtc_code code, const char *format, ...) {
  va_list list;
  va_start(list, format);
  vsnprintf(problem->text, sizeof problem->text, format, list);
  va_end(list);
  return problem->code = code;
}
