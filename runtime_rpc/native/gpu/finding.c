/* What a device says of itself, before any trainer is there. */
#include <stdio.h>
#include <string.h>

#include "gpu.h"
#include "odtc_gpu.h"

static odtc_code find(const char *name, int number, odtc_found_gpu *found, odtc_problem *problem) {
  const odtc_gpu_options options = {.number = number};
  const odtc_gpu_interface *const *each = ODTC_GPU_INTERFACES;
  odtc_gpu_about about;
  odtc_gpu *gpu;
  while (*each && strcmp((*each)->name, name)) ++each;
  if (!*each) return odtc_fail(problem, ODTC_UNSUPPORTED, "this runtime drives no devices through %.100s", name);
  if ((*each)->open(&options, &gpu, &about, problem)) return problem->code;
  (*each)->close(gpu);
  snprintf(found->name, sizeof found->name, "%s", about.name);
  snprintf(found->driver, sizeof found->driver, "%s", about.driver);
  return ODTC_OK;
}

odtc_code odtc_find_gpu(const char *interface, int number, odtc_found_gpu *found) {
  odtc_problem problem = {0};
  if (!interface || !found) return ODTC_USAGE;
  *found = (odtc_found_gpu){0};
  odtc_code code = find(interface, number, found, &problem);
  if (code) snprintf(found->message, sizeof found->message, "%s", problem.text);
  return code;
}
