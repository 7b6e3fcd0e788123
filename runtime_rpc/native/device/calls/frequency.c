#define _GNU_SOURCE
#include "frequency.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "matching.h"

enum { MOST_STEPS = 512, MOST_TEXT = 8192, MOST_KEPT = 1 << 17, PATH = MOST_PATH + 40 };
static const char POLICIES[] = "sys/devices/system/cpu/cpufreq/policy*";
/* Lines of a path and what the file held, with a tab between; no client can name it. */
static const char KEPT[] = ".frequencies";

typedef struct {
  int halves, found;
  odtc_text *why;
} wish;

/* Reads a file that is open, or the begin of it, and closes it; negative, with errno, where it cannot be read. */
static ssize_t read_file(int file, char *to, size_t room) {
  ssize_t got = file < 0 ? -1 : read(file, to, room - 1);
  int why = errno;
  if (file >= 0) close(file);
  if (got >= 0) to[got] = '\0';
  errno = why;
  return got;
}

/* Nothing here waits: the server reads what a session has left. */
static ssize_t read_text(const char *path, char *to, size_t room) {
  return read_file(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), to, room);
}

/* The same of what this user has written down: anybody can leave such a file in a folder that all may write to, by which
   the server would write anything anywhere. */
static ssize_t read_kept(const char *path, char *to, size_t room) {
  struct stat about;
  int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
  if (file >= 0 && (fstat(file, &about) || about.st_uid != getuid())) {
    close(file);
    return -1;
  }
  return read_file(file, to, room);
}

static int write_text(const char *path, const char *text, int flags) {
  int file = open(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK | flags, 0600);
  ssize_t done = file < 0 ? -1 : write(file, text, strlen(text));
  int why = errno;
  if (file >= 0) close(file);
  errno = why;
  return done < 0 ? -1 : 0;
}

static int by_value(const void *one, const void *other) {
  long a = *(const long *)one, b = *(const long *)other;
  return (a > b) - (a < b);
}

/* Numbers of a policy's file, rising; 0 where it has none. */
static int read_numbers(const char *policy, const char *name, long *numbers, int most) {
  char text[MOST_TEXT], path[PATH];
  int count = 0;
  snprintf(path, sizeof path, "%s/%s", policy, name);
  if (read_text(path, text, sizeof text) < 0) return 0;
  for (char *at = text, *end; count < most; at = end, ++count) {
    numbers[count] = strtol(at, &end, 10);
    if (end == at) break;
  }
  qsort(numbers, (size_t)count, sizeof *numbers, by_value);
  return count;
}

/* The frequencies of a group of cores, in kHz; without a list its bounds and their mean. */
static int read_steps(const char *policy, long steps[MOST_STEPS]) {
  int count = read_numbers(policy, "scaling_available_frequencies", steps, MOST_STEPS);
  if (count) return count;
  if (!read_numbers(policy, "cpuinfo_min_freq", steps, 1) ||
      !read_numbers(policy, "cpuinfo_max_freq", steps + 2, 1))
    return 0;
  steps[1] = steps[0] + (steps[2] - steps[0]) / 2;
  return 3;
}

/* Writes down what a file holds, before it is changed for the first time. */
static int keep(const char *path) {
  char before[40], line[PATH + sizeof before + 2], *kept = malloc(MOST_KEPT);
  int failed = !kept || read_text(path, before, sizeof before) < 0;
  if (!failed) {
    char *end = strchr(before, '\n');
    if (end) *end = '\0';
    snprintf(line, sizeof line, "%s\t", path);
    ssize_t used = read_kept(KEPT, kept, MOST_KEPT);
    int is_kept = used > 0 && strstr(kept, line);
    snprintf(line, sizeof line, "%s\t%s\n", path, before);
    errno = ENOSPC; /* what does not fit would not be restored */
    failed = !is_kept && (used + (ssize_t)strlen(line) >= MOST_KEPT ||
                          write_text(KEPT, line, O_CREAT | O_APPEND | O_NOFOLLOW));
  }
  int why = errno;
  free(kept);
  errno = why;
  return failed;
}

static void cap(void *with, const char *policy, int why) {
  wish *w = with;
  char path[PATH], text[40];
  long steps[MOST_STEPS];
  if (why || w->why->used) return;
  ++w->found;
  int count = read_steps(policy, steps);
  if (!count) {
    odtc_text_put(w->why, "%s has no list of frequencies, and no bounds", policy);
    return;
  }
  /* A half goes to the even one, as Python rounds. */
  int last = count - 1, half = last / 2 + (last % 2 && last / 2 % 2);
  snprintf(path, sizeof path, "%s/scaling_max_freq", policy);
  snprintf(text, sizeof text, "%ld", steps[w->halves == 2 ? last : w->halves ? half : 0]);
  if (keep(path) || write_text(path, text, O_TRUNC))
    odtc_text_put(w->why, "%s: %s", path, strerror(errno));
}

void odtc_cap_frequencies(const char *root, int halves, odtc_text *why) {
  wish w = {.halves = halves, .why = why};
  if (strchr(root, '\t') || strchr(root, '\n') || strlen(root) > MOST_PATH / 2) {
    odtc_text_put(why, "no folder of /sys has such a name");
    return;
  }
  odtc_match(root, POLICIES, cap, &w);
  if (!w.found) odtc_text_put(why, "no /%s", POLICIES);
  if (why->used) odtc_uncap_frequencies(".");
}

void odtc_uncap_frequencies(const char *folder) {
  char path[4600], *kept = malloc(MOST_KEPT);
  snprintf(path, sizeof path, "%s/%s", folder, KEPT);
  if (kept && read_kept(path, kept, MOST_KEPT) > 0) {
    for (char *line = kept, *next; (next = strchr(line, '\n')); line = next + 1) {
      char *before = memchr(line, '\t', (size_t)(next - line));
      if (!before) continue;
      *before = *next = '\0';
      write_text(line, before + 1, O_TRUNC);
    }
    unlink(path);
  }
  free(kept);
}
