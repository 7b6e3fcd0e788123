/* Threads of one trainer, which run the tasks of its kernels; task 0 is the caller's. */
#ifndef ODTC_POOL_H
#define ODTC_POOL_H

#include "kernel_abi.h"
#include "problem.h"

typedef struct odtc_pool odtc_pool;

enum { ODTC_MOST_THREADS = 64 };

/* Starts threads - 1 threads, which sleep: each on the core of its number, where cores are given. */
odtc_code odtc_pool_make(int threads, const int *cores, odtc_pool **pool, odtc_problem *problem);
void odtc_pool_end(odtc_pool *pool);

/* Lets the kernels that this thread calls have a pool, and says which one they had; not 0 where the
   system has no memory for that. */
int odtc_pool_use(odtc_pool *pool, odtc_pool **before);

/* TVMBackendParallelLaunch: runs tasks in the pool of the thread that calls, as many as it has
   threads if none are counted. */
int odtc_pool_launch(odtc_task task, void *data, int tasks);

#endif
