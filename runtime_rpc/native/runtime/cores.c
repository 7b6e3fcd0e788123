#define _GNU_SOURCE
#include "cores.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#ifdef __linux__
odtc_core *odtc_allowed_cores(int *count) {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed)) return NULL;
  odtc_core *cores = calloc((size_t)CPU_COUNT(&allowed) + 1, sizeof *cores);
  *count = 0;
  for (int number = 0; cores && number < CPU_SETSIZE; ++number)
    if (CPU_ISSET(number, &allowed)) cores[(*count)++].number = number;
  return cores;
}

int odtc_core_of_caller(void) { return sched_getcpu(); }
#else
odtc_core *odtc_allowed_cores(int *count) {
  *count = 0;
  return NULL;
}

int odtc_core_of_caller(void) { return -1; }
#endif

/* A number in a file of a core, decimal or with 0x in front; 0 where there is none. */
static uint32_t number_in(const char *root, int core, const char *name) {
  char text[512];
  int length = snprintf(text, sizeof text, "%s/sys/devices/system/cpu/cpu%d/%s", root, core, name);
  int file = length < (int)sizeof text ? open(text, O_RDONLY | O_CLOEXEC) : -1;
  if (file < 0) return 0;
  ssize_t bytes = read(file, text, sizeof text - 1);
  close(file);
  text[bytes > 0 ? bytes : 0] = 0;
  unsigned long found = strtoul(text, NULL, 0);
  return found <= UINT32_MAX ? (uint32_t)found : 0;
}

void odtc_describe_cores(const char *root, odtc_core *cores, int count) {
  for (odtc_core *core = cores; core < cores + count; ++core) {
    uint32_t identity = number_in(root, core->number, "regs/identification/midr_el1");
    core->capacity = number_in(root, core->number, "cpu_capacity");
    core->frequency = number_in(root, core->number, "cpufreq/cpuinfo_max_freq");
    core->part = identity >> 24 << 12 | (identity >> 4 & 0xfff);
  }
}

static int is_before(const odtc_core *a, const odtc_core *b, int caller) {
  if (a->capacity != b->capacity) return a->capacity > b->capacity;
  if (a->frequency != b->frequency) return a->frequency > b->frequency;
  if ((a->number < caller) != (b->number < caller)) return b->number < caller;
  return a->number < b->number;
}

void odtc_sort_cores(odtc_core *cores, int count, int caller) {
  for (int n = 1; n < count; ++n) {
    odtc_core moved = cores[n];
    int at = n;
    for (; at && is_before(&moved, cores + at - 1, caller); --at) cores[at] = cores[at - 1];
    cores[at] = moved;
  }
}

odtc_core *odtc_fastest_cores(int *count) {
  odtc_core *cores = odtc_allowed_cores(count);
  if (!cores) return NULL;
  odtc_describe_cores("", cores, *count);
  odtc_sort_cores(cores, *count, odtc_core_of_caller());
  return cores;
}

int odtc_place_workers(const odtc_core *cores, int count, int caller, int workers, int *places) {
  int left_out = 0;
  if (count <= workers) return 0;
  for (int n = 0; n <= workers; ++n)
    if (cores[n].number == caller) left_out = n;
  for (int n = 0; n < workers; ++n) places[n] = cores[n + (n >= left_out)].number;
  return 1;
}

int odtc_other_place(const odtc_core *cores, int count, int caller, int workers, const int *places) {
  for (int n = 0; n < count; ++n) {
    int is_free = cores[n].number != caller;
    for (int worker = 0; worker < workers; ++worker) is_free &= places[worker] != cores[n].number;
    if (is_free) return cores[n].number;
  }
  return -1;
}
