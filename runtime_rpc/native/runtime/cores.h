/* The cores that threads may run on: what each is, how fast, and which of them workers get. */
#ifndef ODTC_CORES_H
#define ODTC_CORES_H

#include <stdint.h>

typedef struct {
  int number;
  uint32_t capacity, frequency; /* the system's measure of all it does, and kHz at most; 0: unknown */
  uint32_t part;                /* of an ARM core: who made it << 12, and the number of its kind; 0 */
  uint32_t physical;            /* the lowest number among those that are one core of the hardware */
  int rank;                     /* how many of those come before it in the order */
} odtc_core;

/* The cores that this thread may run on, with their numbers alone, to be freed; NULL where the system
   does not say. */
odtc_core *odtc_allowed_cores(int *count);

/* The same, described by the system's files, in the order of odtc_sort_cores() for this thread. */
odtc_core *odtc_fastest_cores(int *count);

/* The core that this thread runs on now; -1 where the system does not say. */
int odtc_core_of_caller(void);

/* Reads what the files below a folder say of cores; "" is the system's own. */
void odtc_describe_cores(const char *root, odtc_core *cores, int count);

/* Sorts cores, the fastest first; of those that are alike the caller's comes first, then those with
   the numbers after it: so the threads of several callers are on other cores. Where several are one
   core of the hardware, which they share, the second of each comes behind the first of all. */
void odtc_sort_cores(odtc_core *cores, int count, int caller);

/* Gives each worker a core of its own: of as many of the fastest as there are threads, all but the
   caller's. If it is on none of these, the fastest is left for it. Returns 0, and places nobody, where
   there are fewer cores than threads. */
int odtc_place_workers(const odtc_core *cores, int count, int caller, int workers, int *places);

/* A free core for the worker whose core the caller has now; -1 where there is none. */
int odtc_other_place(const odtc_core *cores, int count, int caller, int workers, const int *places);

#endif
