#define _GNU_SOURCE
/* Many kernels of more and fewer tasks than there are threads, by the pool itself: pool THREADS ROUNDS.
   Each task has to be run once, and the launch has to say whether one failed. Then a task that takes
   long in a worker: prints which share of that time the caller spent computing. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#include "pool.h"

enum { MOST_TASKS = ODTC_MOST_THREADS + 1, LONG = 300 * 1000 * 1000 };

typedef struct {
  int runs[MOST_TASKS], fails; /* fails: the number of the task that does, or -1 */
} round_of_tasks;

static int count_run(int number, odtc_task_group *group, void *data) {
  round_of_tasks *round = data;
  ++round->runs[number];
  /* Now and then a task is long enough that others find themselves alone. */
  for (volatile int n = 0; n < (number + group->tasks) % 7 * 300;) ++n;
  return number == round->fails ? -1 : 0;
}

static void check_round(int tasks, int fails, int threads) {
  round_of_tasks round = {.fails = fails};
  int failed = odtc_pool_launch(count_run, &round, tasks), meant = tasks ? tasks : threads;
  int has_to_fail = fails >= 0 && fails < meant;
  for (int n = 0; n < MOST_TASKS; ++n)
    /* Those that follow a failure in turn are left out. */
    if (round.runs[n] != (n < meant) && !(has_to_fail && meant > threads)) exit(3);
  if (failed != -has_to_fail) exit(4);
}

static atomic_int begun;

/* Task 1 takes long, in a worker: the caller is in task 0 until it has begun. */
static int wait_long(int number, odtc_task_group *group, void *data) {
  (void)group, (void)data;
  struct timespec moment = {0, 1000000}, time = {0, LONG};
  if (number == 1) atomic_store(&begun, 1), nanosleep(&time, NULL);
  while (!atomic_load(&begun)) nanosleep(&moment, NULL);
  return 0;
}

static double own_seconds(void) {
  struct rusage used;
  getrusage(RUSAGE_THREAD, &used);
  return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
         (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

int main(int count, char **words) {
  if (count != 3) return 2;
  int threads = atoi(words[1]), rounds = atoi(words[2]);
  odtc_problem problem = {0};
  odtc_pool *pool, *before;
  if (odtc_pool_make(threads, NULL, NULL, 0, &pool, &problem)) return 1;
  if (odtc_pool_use(pool, &before)) return 1;
  for (int n = 0; n < rounds; ++n) check_round(n % (threads + 2), n % 5 ? -1 : n % 3, threads);
  double spent = own_seconds();
  if (odtc_pool_launch(wait_long, NULL, 2)) return 5;
  printf("%.3f\n", (own_seconds() - spent) / (LONG / 1e9));
  odtc_pool_use(before, &before);
  odtc_pool_end(pool);
  return 0;
}
