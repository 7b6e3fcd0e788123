#define _GNU_SOURCE
#include "clock.h"

#include <stdlib.h>
#include <time.h>

#include "trainer.h"

enum { FIRST_ROOM = 1024 };

int64_t odtc_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * (int64_t)1000000000 + now.tv_nsec;
}

static int has_room(odtc_clock *clock) {
  if (clock->count < clock->room) return 1;
  size_t room = clock->room ? 2 * clock->room : FIRST_ROOM;
  odtc_timed_call *calls = realloc(clock->calls, room * sizeof *calls);
  if (!calls) return 0;
  clock->calls = calls;
  clock->room = room;
  return 1;
}

void odtc_note(odtc_clock *clock, const char *kernel, int64_t begin) {
  odtc_note_times(clock, kernel, begin, odtc_now());
}

void odtc_note_times(odtc_clock *clock, const char *kernel, int64_t begin, int64_t end) {
  if (has_room(clock))
    clock->calls[clock->count++] = (odtc_timed_call){kernel, begin, end};
  else
    clock->is_short = 1;
}

odtc_code odtc_start_clock(odtc_trainer *t) {
  if (odtc_check_open(t) || odtc_time_gpu(t, 1)) return t->problem.code;
  t->clock.count = 0;
  t->clock.is_short = 0;
  t->clock.is_on = 1;
  return ODTC_OK;
}

odtc_code odtc_stop_clock(odtc_trainer *t, const odtc_timed_call **calls, size_t *count) {
  if (odtc_check_open(t) || odtc_check_given(t, calls, "a place for the calls") ||
      odtc_check_given(t, count, "a place for their number"))
    return t->problem.code;
  t->clock.is_on = 0;
  if (odtc_time_gpu(t, 0)) return t->problem.code;
  *calls = t->clock.calls;
  *count = t->clock.count;
  if (!t->clock.is_short) return ODTC_OK;
  return odtc_fail(&t->problem, ODTC_NO_MEMORY, "there was no memory for the times after %zu calls",
                   t->clock.count);
}
