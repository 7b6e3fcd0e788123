/* Takes times of a kernel as TVM does: what the client makes of them is the same on any server. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "clock.h"
#include "functions.h"
#include "kernels.h"
#include "memory.h"

/* Of what a client asks for: TVM's names for them, and what they may be. */
static const struct {
  const char *name;
  int64_t least, most;
} BOUNDS[] = {
    {"number", 1, INT32_MAX},
    {"repeat", 1, 65536},
    {"min_repeat_ms", 0, 3600000},
    {"limit_zero_time_iterations", 0, INT32_MAX},
    {"cooldown_interval_ms", 0, 60000},
    {"repeats_to_cooldown", 1, INT32_MAX},
    {"cache_flush_bytes", 0, 1 << 30},
};
enum { ASKED = sizeof BOUNDS / sizeof *BOUNDS, FIRST = 4 }; /* after module, name and device */

static int is_within(odtc_session *s, const odtc_value *asked) {
  for (int n = 0; n < ASKED; ++n) {
    if (asked[n].number >= BOUNDS[n].least && asked[n].number <= BOUNDS[n].most) continue;
    odtc_refuse(s, "%s is from %lld to %lld", BOUNDS[n].name, (long long)BOUNDS[n].least,
                (long long)BOUNDS[n].most);
    return 0;
  }
  return 1;
}

void odtc_make_timer(odtc_session *s, const odtc_value *v, odtc_result *result) {
  const odtc_value *asked = v + FIRST;
  if (!is_within(s, asked)) return;
  if (asked[ASKED].count) {
    odtc_refuse(s, "this server calls no function before a kernel, such as %.100s",
                asked[ASKED].bytes);
    return;
  }
  odtc_timing timing = {asked[0].number, asked[1].number, asked[2].number, asked[3].number,
                        asked[4].number, asked[5].number, asked[6].number};
  int64_t handle = odtc_keep_kernel(s, v, v[1].bytes, ODTC_A_TIMER, &timing);
  if (!handle && !s->failure[0]) odtc_refuse(s, "the module has no kernel %.100s", v[1].bytes);
  *result = (odtc_result){.type = VALUE_FUNCTION, .number = handle};
}

/* Seconds of calls, one after the other; negative where one fails. */
static double seconds_of(odtc_session *s, const odtc_module_kernel *kernel,
                         const odtc_kernel_arguments *arguments, int64_t number) {
  int64_t begin = odtc_now();
  for (int64_t n = 0; n < number; ++n)
    if (odtc_run_kernel(s, kernel, arguments)) return -1;
  return (double)(odtc_now() - begin) / 1e9;
}

/* More calls, where those before took less than they are to. */
static int64_t more_calls(int64_t number, double least, double seconds) {
  double wanted = seconds > 0 ? least / (seconds / (double)number) + 1 : 0;
  double more = 1.618 * (double)number;
  if (wanted > more) more = wanted;
  return more < INT32_MAX ? (int64_t)more : INT32_MAX;
}

/* A copy of as many bytes as are asked for, so that nothing else is near the core. */
static void empty_caches(uint8_t *at, int64_t bytes) {
  if (bytes) memcpy(at, at + bytes, (size_t)bytes);
}

/* The time of a call of one sample; negative where one fails. */
static double sample(odtc_session *s, const odtc_module_kernel *kernel,
                     const odtc_kernel_arguments *arguments, uint8_t *flushed, int64_t *number) {
  const odtc_timing *timing = &kernel->timing;
  double least = (double)timing->least_ms / 1e3;
  int64_t zeros = 0;
  for (;;) {
    empty_caches(flushed, timing->flushed);
    double seconds = seconds_of(s, kernel, arguments, *number);
    zeros += seconds == 0;
    if (seconds < 0 || seconds >= least || zeros >= timing->most_zeros)
      return seconds / (double)*number;
    *number = more_calls(*number, least, seconds);
  }
}

static void cool_down(const odtc_timing *timing, int64_t sampled) {
  if (sampled % timing->cooldown_every) return;
  struct timespec pause = {timing->cooldown_ms / 1000, timing->cooldown_ms % 1000 * 1000000};
  nanosleep(&pause, NULL);
}

/* Returns the seconds of a call in each sample, float64; a call before them is not timed. */
void odtc_time_kernel(odtc_session *s, const void *at, const odtc_values *values,
                      odtc_result *result) {
  const odtc_module_kernel *kernel = at;
  const odtc_timing *timing = &kernel->timing;
  odtc_kernel_arguments arguments;
  int64_t number = timing->number;
  if (odtc_take_arguments(s, values, &arguments) || odtc_run_kernel(s, kernel, &arguments)) return;
  size_t count = (size_t)timing->repeat, room = 2 * (size_t)timing->flushed;
  double *seconds = malloc(count * sizeof *seconds);
  uint8_t *flushed = odtc_allocate(room + ODTC_ALIGNMENT);
  if (seconds && flushed) {
    memset(flushed, 1, room); /* pages of their own */
    for (size_t n = 0; n < count && !s->failure[0]; ++n) {
      seconds[n] = sample(s, kernel, &arguments, flushed, &number);
      if (timing->cooldown_ms) cool_down(timing, (int64_t)n);
    }
    *result = (odtc_result){.type = VALUE_BYTES, .bytes = seconds, .count = count * sizeof *seconds,
                            .owned = seconds};
  } else {
    odtc_refuse(s, "there is no memory for times, or for %zu bytes that empty caches", room);
    free(seconds);
  }
  free(flushed);
}
