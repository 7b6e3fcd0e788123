/* The times of the calls of kernels, while somebody asks for them. */
#ifndef ODTC_CLOCK_H
#define ODTC_CLOCK_H

#include "problem.h"

typedef struct {
  odtc_timed_call *calls;
  size_t count, room;
  int is_on, is_short; /* of memory: calls are missing */
} odtc_clock;

/* Nanoseconds of the monotonic clock. */
int64_t odtc_now(void);
/* Notes a call that ends now; and one of such times. */
void odtc_note(odtc_clock *clock, const char *kernel, int64_t begin);
void odtc_note_times(odtc_clock *clock, const char *kernel, int64_t begin, int64_t end);

#endif
