/* Threads of one trainer, which run the tasks of its kernels; task 0 is the caller's. */
#ifndef ODTC_POOL_H
#define ODTC_POOL_H

#include "cores.h"
#include "kernel_abi.h"
#include "problem.h"

typedef struct odtc_pool odtc_pool;

enum { ODTC_MOST_THREADS = 64 };

/* Starts threads - 1 threads, which sleep: each on the core of its number, where some are given. Else
   each has a core of its own among those that are known, the fastest first, and never the one that the
   caller runs on: as far as there are enough, and the system lets threads be bound. */
odtc_code odtc_pool_make(int threads, const int *given, const odtc_core *known, int count,
                         odtc_pool **pool, odtc_problem *problem);
void odtc_pool_end(odtc_pool *pool);

/* Lets the kernels that this thread calls have a pool, and says which one they had; not 0 where the
   system has no memory for that. */
int odtc_pool_use(odtc_pool *pool, odtc_pool **before);

/* TVMBackendParallelLaunch: runs tasks in the pool of the thread that calls, as many as it has
   threads if none are counted. */
int odtc_pool_launch(odtc_task task, void *data, int tasks);

#endif
