#define _GNU_SOURCE
#include "recorder.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core_speeds.h"
#include "matching.h"

/* Of a core's time: what reading one file may take, and all of it. */
static const double MOST_OF_ONE = 0.002, MOST_OF_ALL = 0.01;
/* Samples between two looks at that; that are kept: beyond, every other one is dropped. Bytes of a file;
   of a file above those of its first sample; files. */
enum { LOOKED_AT = 32, ROUNDS = 60000, MOST_READ = 65536, SPARE = 512, MOST_FILES = 1024 };

typedef struct {
  uint64_t pattern, why;
  char path[MOST_PATH];
  int file; /* -1: it cannot be read */
  size_t room, every;
  uint8_t *samples;
  size_t used, allocated;
} source;

struct odtc_recorder {
  double period, began;
  source *sources;
  size_t count;
  size_t pattern, every; /* of the line that is read */
  const char *until;
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t wake;
  int stopping;
};

static double now_of(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static int by_value(const void *one, const void *other) {
  double a = *(const double *)one, b = *(const double *)other;
  return (a > b) - (a < b);
}

/* Opens a file and reads it a few times: how long is it, and how slow? */
static void probe(odtc_recorder *r, source *s) {
  static char data[MOST_READ + 1];
  enum { TRIES = 3 };
  double took[TRIES];
  ssize_t got = 0;
  s->file = open(s->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  for (int n = 0; s->file >= 0 && n < TRIES && got >= 0; ++n) {
    double begin = now_of(CLOCK_MONOTONIC);
    got = pread(s->file, data, MOST_READ, 0);
    took[n] = now_of(CLOCK_MONOTONIC) - begin;
  }
  if (s->file < 0 || got < 0) {
    s->why = (uint64_t)errno;
    if (s->file >= 0) close(s->file);
    s->file = -1;
    return;
  }
  data[got] = '\0';
  const char *end = *r->until ? strstr(data, r->until) : NULL;
  s->room = (end ? (size_t)(end - data) : (size_t)got) + SPARE;
  qsort(took, TRIES, sizeof *took, by_value);
  size_t seldom = 1 + (size_t)(took[TRIES / 2] / (MOST_OF_ONE * r->period));
  s->every = seldom > r->every ? seldom : r->every;
}

static void add(void *with, const char *path, int why) {
  odtc_recorder *r = with;
  if (r->count == MOST_FILES) return;
  source *more = realloc(r->sources, (r->count + 1) * sizeof *more);
  if (!more) return;
  r->sources = more;
  source *s = more + r->count++;
  *s = (source){.pattern = r->pattern, .why = (uint64_t)why, .file = -1};
  snprintf(s->path, sizeof s->path, "%s", path);
  if (!why) probe(r, s);
}

/* Reads a file; one that fails may work again, such as that of a core that was offline. */
static void sample(source *s, double now) {
  size_t head = sizeof now + sizeof(uint64_t);
  if (s->allocated - s->used < head + s->room) {
    size_t wanted = 2 * s->allocated + head + s->room;
    uint8_t *more = realloc(s->samples, wanted);
    if (!more) return;
    s->samples = more, s->allocated = wanted;
  }
  ssize_t got = pread(s->file, s->samples + s->used + head, s->room, 0);
  if (got < 0) return;
  uint64_t bytes = (uint64_t)got;
  memcpy(s->samples + s->used, &now, sizeof now);
  memcpy(s->samples + s->used + sizeof now, &bytes, sizeof bytes);
  s->used += head + (size_t)got;
}

static void take_round(odtc_recorder *r, size_t number) {
  double now = now_of(CLOCK_MONOTONIC);
  for (size_t n = 0; n < r->count; ++n)
    if (r->sources[n].file >= 0 && number % r->sources[n].every == 0) sample(r->sources + n, now);
}

/* Drops every other sample. */
static void thin(source *s) {
  size_t from = 0, to = 0;
  for (int keep = 1; from < s->used; keep = !keep) {
    uint64_t bytes;
    memcpy(&bytes, s->samples + from + sizeof(double), sizeof bytes);
    size_t whole = sizeof(double) + sizeof bytes + (size_t)bytes;
    if (keep) memmove(s->samples + to, s->samples + from, whole), to += whole;
    from += whole;
  }
  s->used = to;
}

/* Waits until a time; whether it is to stop. */
static int wait_until(odtc_recorder *r, double due) {
  struct timespec at = {(time_t)due, (long)((due - (double)(time_t)due) * 1e9)};
  pthread_mutex_lock(&r->lock);
  while (!r->stopping && pthread_cond_timedwait(&r->wake, &r->lock, &at) != ETIMEDOUT) continue;
  int stopping = r->stopping;
  pthread_mutex_unlock(&r->lock);
  return stopping;
}

static void *run(void *argument) {
  odtc_recorder *r = argument;
  odtc_use_all_cores();
  double due = r->began + r->period, looked = r->began, spent = now_of(CLOCK_THREAD_CPUTIME_ID);
  for (size_t number = 1; !wait_until(r, due); ++number) {
    take_round(r, number);
    if (number == ROUNDS) {
      for (size_t n = 0; n < r->count; ++n) thin(r->sources + n);
      r->period *= 2, number /= 2;
    }
    double now = now_of(CLOCK_MONOTONIC);
    if (number % LOOKED_AT == 0) {
      double own = now_of(CLOCK_THREAD_CPUTIME_ID);
      if (own - spent > MOST_OF_ALL * (now - looked)) r->period *= 2;
      looked = now, spent = own;
    }
    /* Rounds that were missed are not made up for. */
    due = due + r->period > now ? due + r->period : now;
  }
  return NULL;
}

/* The next of the tabs' or lines' parts of a text, which it cuts off. */
static char *part(char **text, char end) {
  char *begin = *text, *found = begin ? strchr(begin, end) : NULL;
  if (found) *found = '\0';
  *text = found ? found + 1 : NULL;
  return begin;
}

static void add_all(odtc_recorder *r, const char *root, char *wanted) {
  while (wanted && *wanted) {
    char *line = part(&wanted, '\n'), *every = part(&line, '\t'), *until = part(&line, '\t');
    if (line) {
      r->every = strtoul(every, NULL, 10);
      if (!r->every) r->every = 1;
      r->until = until;
      odtc_match(root, line, add, r);
    }
    ++r->pattern;
  }
}

static void end(odtc_recorder *r) {
  for (size_t n = 0; n < r->count; ++n) {
    if (r->sources[n].file >= 0) close(r->sources[n].file);
    free(r->sources[n].samples);
  }
  free(r->sources);
  free(r);
}

odtc_recorder *odtc_record(double period, const char *root, const char *wanted) {
  odtc_recorder *r = calloc(1, sizeof *r);
  char *lines = strdup(wanted);
  pthread_condattr_t attributes;
  if (!r || !lines) return free(r), free(lines), NULL;
  r->period = period;
  add_all(r, root, lines);
  free(lines);
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_mutex_init(&r->lock, NULL);
  pthread_cond_init(&r->wake, &attributes);
  r->began = now_of(CLOCK_MONOTONIC);
  take_round(r, 0);
  if (pthread_create(&r->thread, NULL, run, r)) return end(r), NULL;
  return r;
}

static uint8_t *put(uint8_t *to, const void *from, size_t bytes) {
  if (bytes) memcpy(to, from, bytes);
  return to + bytes;
}

uint8_t *odtc_recorded(odtc_recorder *r, size_t *bytes) {
  pthread_mutex_lock(&r->lock);
  r->stopping = 1;
  pthread_cond_signal(&r->wake);
  pthread_mutex_unlock(&r->lock);
  pthread_join(r->thread, NULL);
  take_round(r, 0);
  double times[] = {r->began, now_of(CLOCK_MONOTONIC), r->period};
  uint64_t count = r->count;
  *bytes = sizeof times + sizeof count;
  for (size_t n = 0; n < r->count; ++n)
    *bytes += 4 * sizeof(uint64_t) + strlen(r->sources[n].path) + r->sources[n].used;
  uint8_t *all = malloc(*bytes), *at = all;
  if (all) {
    at = put(put(at, times, sizeof times), &count, sizeof count);
    for (size_t n = 0; n < r->count; ++n) {
      const source *s = r->sources + n;
      uint64_t head[] = {s->pattern, s->why, strlen(s->path), s->used};
      at = put(put(put(at, head, sizeof head), s->path, strlen(s->path)), s->samples, s->used);
    }
  }
  end(r);
  return all;
}
