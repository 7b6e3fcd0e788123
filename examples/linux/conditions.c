#include "conditions.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HOT = 85000 /* thousandths of a degree Celsius; boards begin to slow down about there */ };

static int is_hot(const char *line) { return atol(line) >= HOT; }

/* Of a battery, and of an uninterruptible power supply: nothing charges it. */
static int discharges(const char *line) { return !strncmp(line, "Discharging", 11); }

/* What is looked at: the files of a pattern below /sys, and what the first line of one may say. */
static const struct {
  const char *pattern;
  int (*is_so)(const char *line);
  const char *reason;
} CONDITIONS[] = {
    {"class/power_supply/*/status", discharges, "it runs on its battery"},
    {"class/thermal/thermal_zone*/temp", is_hot, "it is hot"},
};

static int any_is_so(const char *pattern, int (*is_so)(const char *line)) {
  glob_t found;
  int result = 0;
  if (glob(pattern, 0, NULL, &found)) return 0;
  for (size_t n = 0; n < found.gl_pathc && !result; ++n) {
    char line[64];
    FILE *file = fopen(found.gl_pathv[n], "r");
    if (!file) continue; /* of a battery that was taken out meanwhile */
    result = fgets(line, sizeof line, file) && is_so(line);
    fclose(file);
  }
  globfree(&found);
  return result;
}

const char *reason_to_wait(const char *sys) {
  for (size_t n = 0; n < sizeof CONDITIONS / sizeof *CONDITIONS; ++n) {
    char pattern[1024];
    snprintf(pattern, sizeof pattern, "%s/%s", sys, CONDITIONS[n].pattern);
    if (any_is_so(pattern, CONDITIONS[n].is_so)) return CONDITIONS[n].reason;
  }
  return NULL;
}
