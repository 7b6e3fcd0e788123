#define _GNU_SOURCE
#include "cores.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Others have no such parts, and take long to write that file. */
#if defined(__aarch64__)
enum { IS_ARM = 1 };
#else
enum { IS_ARM = 0 };
#endif

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

/* Reads a file below a folder, as far as there is room; the text is empty where there is none. */
static void read_text(const char *root, const char *name, char *text, size_t room) {
  char path[512];
  int length = snprintf(path, sizeof path, "%s/%s", root, name);
  int file = length < (int)sizeof path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  size_t bytes = 0;
  if (file >= 0) {
    /* The system gives such a file piece by piece. */
    for (ssize_t part = 1; part > 0 && bytes < room - 1; bytes += part > 0 ? (size_t)part : 0)
      part = read(file, text + bytes, room - 1 - bytes);
    close(file);
  }
  text[bytes] = 0;
}

/* The first number in a file of a core, decimal or with 0x in front; another where there is none. */
static uint32_t number_in(const char *root, int core, const char *name, uint32_t otherwise) {
  char path[100], text[64];
  snprintf(path, sizeof path, "sys/devices/system/cpu/cpu%d/%s", core, name);
  read_text(root, path, text, sizeof text);
  char *end;
  unsigned long found = strtoul(text, &end, 0);
  return end > text && found <= UINT32_MAX ? (uint32_t)found : otherwise;
}

/* The number in a line of /proc/cpuinfo, if that begins so. */
static int is_line(const char *line, const char *begins, uint32_t *number) {
  if (strncmp(line, begins, strlen(begins))) return 0;
  line += strcspn(line, ":\n");
  *number = *line == ':' ? (uint32_t)strtoul(line + 1, NULL, 0) : 0;
  return 1;
}

/* Systems before Linux 4.8 say the parts here alone. A core that is offline is not among them. */
static void read_parts(const char *root, odtc_core *cores, int count) {
  enum { ROOM = 1 << 16 };
  char *text = malloc(ROOM);
  uint32_t core = UINT32_MAX, maker = 0, part = 0;
  if (!text) return;
  read_text(root, "proc/cpuinfo", text, ROOM);
  for (char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
    if (is_line(line, "processor", &core) || is_line(line, "CPU implementer", &maker)) continue;
    if (!is_line(line, "CPU part", &part)) continue;
    for (int n = 0; n < count; ++n)
      if ((uint32_t)cores[n].number == core) cores[n].part = maker << 12 | part;
  }
  free(text);
}

void odtc_describe_cores(const char *root, odtc_core *cores, int count) {
  int silent = 0;
  for (odtc_core *core = cores; core < cores + count; ++core) {
    core->capacity = number_in(root, core->number, "cpu_capacity", 0);
    core->frequency = number_in(root, core->number, "cpufreq/cpuinfo_max_freq", 0);
    core->physical =
        number_in(root, core->number, "topology/thread_siblings_list", (uint32_t)core->number);
    uint32_t identity = number_in(root, core->number, "regs/identification/midr_el1", 0);
    core->part = identity >> 24 << 12 | (identity >> 4 & 0xfff);
    silent += !identity;
  }
  if (IS_ARM && silent) read_parts(root, cores, count);
}

static int is_before(const odtc_core *a, const odtc_core *b, int caller) {
  if (a->rank != b->rank) return a->rank < b->rank;
  if (a->capacity != b->capacity) return a->capacity > b->capacity;
  if (a->frequency != b->frequency) return a->frequency > b->frequency;
  if ((a->number < caller) != (b->number < caller)) return b->number < caller;
  return a->number < b->number;
}

static void sort(odtc_core *cores, int count, int caller) {
  for (int n = 1; n < count; ++n) {
    odtc_core moved = cores[n];
    int at = n;
    for (; at && is_before(&moved, cores + at - 1, caller); --at) cores[at] = cores[at - 1];
    cores[at] = moved;
  }
}

void odtc_sort_cores(odtc_core *cores, int count, int caller) {
  for (int n = 0; n < count; ++n) cores[n].rank = 0;
  sort(cores, count, caller);
  for (int n = 1; n < count; ++n)
    for (int before = 0; before < n; ++before)
      cores[n].rank += cores[before].physical == cores[n].physical;
  sort(cores, count, caller);
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
