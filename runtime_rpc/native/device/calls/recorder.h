/* A thread that reads files of /proc and /sys again and again, while the process computes.

   What it reads stays as it was read, with its times: whoever asked for it knows what it says. So a
   sample costs little more than its reads. A file that is slow, such as a sensor behind a bus, is read
   less often, so that none takes more than 0.2 % of a core's time; and where all of it takes more than
   1 %, samples are taken half as often from then on. */
#ifndef ODTC_RECORDER_H
#define ODTC_RECORDER_H

#include <stddef.h>
#include <stdint.h>

typedef struct odtc_recorder odtc_recorder;

/* Begins to read each `period` seconds. `wanted` has a line for each pattern of files below a root: a
   number, so many samples of which it is read at one; a word after which a file has nothing of use, or
   none; and the pattern, with tabs between. NULL where there is no memory, or no thread. */
odtc_recorder *odtc_record(double period, const char *root, const char *wanted);

/* Ends it, and returns what was read; NULL where there is no memory. All is little endian: began, ended,
   period, float64 in seconds of the monotonic clock; the number of files, uint64; and for each of them
   the number of its pattern, errno where it cannot be read, bytes of its path, bytes of its samples,
   uint64; its path; and its samples: a time, float64, bytes, uint64, and what was read. */
uint8_t *odtc_recorded(odtc_recorder *recorder, size_t *bytes);

#endif
