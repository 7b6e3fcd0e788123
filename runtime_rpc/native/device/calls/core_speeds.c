#define _GNU_SOURCE
#include "core_speeds.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>

static long speed_of(int core) {
  char path[80];
  long speed = 0;
  snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/cpufreq/cpuinfo_max_freq", core);
  FILE *file = fopen(path, "re");
  if (!file) return 0;
  if (fscanf(file, "%ld", &speed) != 1 || speed < 0) speed = 0;
  fclose(file);
  return speed;
}

static cpu_set_t allowed;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void ask(void) { sched_getaffinity(0, sizeof allowed, &allowed); }

int odtc_use_core(int core) {
  cpu_set_t only;
  CPU_ZERO(&only);
  CPU_SET((size_t)core, &only);
  pthread_once(&once, ask);
  return sched_setaffinity(0, sizeof only, &only);
}

int odtc_use_all_cores(void) {
  pthread_once(&once, ask);
  return sched_setaffinity(0, sizeof allowed, &allowed);
}

void odtc_put_core_speeds(odtc_text *text) {
  int count = 0;
  pthread_once(&once, ask);
  odtc_text_put(text, "{");
  for (int core = 0; core < MOST_CORES; ++core)
    if (CPU_ISSET((size_t)core, &allowed))
      odtc_text_put(text, "%s\"%d\": %ld", count++ ? ", " : "", core, speed_of(core));
  odtc_text_put(text, "}");
}
