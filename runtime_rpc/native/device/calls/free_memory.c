#include "free_memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* The number behind a word at the begin of a line, such as `MemAvailable: 123 kB`; -1 if there is none. */
static int64_t field(const char *path, const char *word) {
  char line[512];
  int64_t found = -1;
  size_t length = strlen(word);
  FILE *file = fopen(path, "re");
  while (file && found < 0 && fgets(line, sizeof line, file))
    if (!strncmp(line, word, length)) found = strtoll(line + length, NULL, 10);
  if (file) fclose(file);
  return found;
}

static int64_t least(int64_t one, int64_t other) { return other >= 0 && other < one ? other : one; }

/* What each version of control groups calls what a group may take, takes, and could give back; by what
   stands between the colons of /proc/self/cgroup. */
static const struct controller {
  const char *names, *root, *most, *used, *files;
} CONTROLLERS[] = {
    {"::", "/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file "},
    {":memory:", "/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
     "total_inactive_file "},
};

static int64_t left_in(const struct controller *c, const char *group) {
  char path[4600];
  const char *names[] = {c->most, c->used, "memory.stat"};
  const char *words[] = {"", "", c->files};
  int64_t found[3];
  for (int n = 0; n < 3; ++n) {
    snprintf(path, sizeof path, "%s%s/%s", c->root, group, names[n]);
    found[n] = field(path, words[n]);
  }
  /* `max` is no number: strtoll makes 0 of it, which no group has. */
  if (found[0] <= 0 || found[1] < 0) return -1;
  int64_t left = found[0] - found[1] + (found[2] > 0 ? found[2] : 0);
  return left > 0 ? left : 0;
}

/* The group of a line such as `0::/user/one`, and all around it. */
static int64_t left_around(const struct controller *c, char *group) {
  int64_t left = INT64_MAX;
  for (;;) {
    left = least(left, left_in(c, group));
    char *last = strrchr(group, '/');
    if (!last) return left;
    *last = '\0';
  }
}

static int64_t left_in_groups(void) {
  char line[4200];
  int64_t left = INT64_MAX;
  FILE *file = fopen("/proc/self/cgroup", "re");
  while (file && fgets(line, sizeof line, file)) {
    line[strcspn(line, "\n")] = '\0';
    char *names = strchr(line, ':');
    for (size_t n = 0; names && n < sizeof CONTROLLERS / sizeof *CONTROLLERS; ++n) {
      const struct controller *c = CONTROLLERS + n;
      size_t length = strlen(c->names);
      if (!strncmp(names, c->names, length)) left = least(left, left_around(c, names + length));
    }
  }
  if (file) fclose(file);
  return left;
}

int64_t odtc_available_bytes(void) {
  int64_t left = field("/proc/meminfo", "MemAvailable:");
  struct rlimit limit;
  if (left < 0) return -1;
  left = least(left << 10, left_in_groups());
  if (!getrlimit(RLIMIT_AS, &limit) && limit.rlim_cur != RLIM_INFINITY) {
    int64_t used = field("/proc/self/status", "VmSize:") << 10;
    left = least(left, (int64_t)limit.rlim_cur > used ? (int64_t)limit.rlim_cur - used : 0);
  }
  return left;
}
