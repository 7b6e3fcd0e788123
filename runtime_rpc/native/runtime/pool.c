#define _GNU_SOURCE
#include "pool.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "awaited.h"
#include "memory.h"

/* In the place of the bit of task 0, which the caller runs: workers end. */
enum { END = 1 };

/* Who begins a task clears its bit. Nobody waits for a worker that has begun none, as where the system
   keeps it from its core: others run its task, and it finds another one when it comes. What a task
   computes depends on its number alone, not on the thread that runs it. */
struct odtc_pool {
  odtc_awaited unbegun; /* a bit for each task that nobody has begun, or END */
  odtc_awaited unended; /* how many of these tasks are not at their end */
  atomic_int failed;
  odtc_task task;
  void *data;
  odtc_task_group group;
  int threads, started;
  odtc_core *known; /* where workers have cores of their own: all that they may have */
  int known_count;
  int places[ODTC_MOST_THREADS]; /* the core of each worker, then */
  struct worker {
    odtc_pool *pool;
    int number;
    pthread_t id;
    atomic_int thread; /* the system's number, once it is on its core */
  } workers[ODTC_MOST_THREADS];
};

/* Kernels know no trainer, so the thread that calls them does. Android before 10 loads no library with
   a _Thread_local variable. */
static pthread_key_t pool_of_thread;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int no_key;

static void make_key(void) { no_key = pthread_key_create(&pool_of_thread, NULL); }

#ifdef __linux__
typedef cpu_set_t odtc_cores;

static void remember_cores(odtc_cores *before) { sched_getaffinity(0, sizeof *before, before); }
static void leave_core(const odtc_cores *before) { sched_setaffinity(0, sizeof *before, before); }
static int own_number(void) { return (int)syscall(SYS_gettid); }

/* Lets a thread, or this one by the number 0, run on one core alone. */
static int bind(int thread, int core) {
  cpu_set_t only;
  CPU_ZERO(&only);
  if (core >= 0 && core < CPU_SETSIZE) CPU_SET(core, &only);
  return sched_setaffinity(thread, sizeof only, &only);
}

/* Lets this thread run on one core, and those that it starts until it leaves that. */
static odtc_code stay_on_core(int core, odtc_problem *problem) {
  if (!bind(0, core)) return ODTC_OK;
  return odtc_fail(problem, ODTC_USAGE, "no thread may run on core %d: %s", core, strerror(errno));
}
#else
typedef int odtc_cores;
static void remember_cores(odtc_cores *before) { *before = 0; }
static void leave_core(const odtc_cores *before) { (void)before; }
static int own_number(void) { return 0; }
static int bind(int thread, int core) { return thread + core < 0; }
static odtc_code stay_on_core(int core, odtc_problem *problem) {
  return odtc_fail(problem, ODTC_UNSUPPORTED, "this system binds no thread to core %d", core);
}
#endif

/* Gives the worker whose core the caller has come to another one: both would wait for each other. */
static void leave_caller_alone(odtc_pool *pool) {
  int here = odtc_core_of_caller(), workers = pool->started;
  for (int n = 0; n < workers; ++n) {
    if (pool->places[n] != here) continue;
    int other = odtc_other_place(pool->known, pool->known_count, here, workers, pool->places);
    int thread = atomic_load_explicit(&pool->workers[n].thread, memory_order_acquire);
    if (other >= 0 && thread && !bind(thread, other)) pool->places[n] = other;
    return;
  }
}

int odtc_pool_use(odtc_pool *pool, odtc_pool **before) {
  if (pool && pool->known) leave_caller_alone(pool);
  *before = pthread_getspecific(pool_of_thread);
  return pthread_setspecific(pool_of_thread, pool);
}

/* Runs tasks until all are begun; first the one of a number, if it is among them. Not copied into both
   who call it: apps count bytes. */
__attribute__((noinline)) static void run_unbegun(odtc_pool *pool, int own) {
  for (uint64_t left; (left = atomic_load(&pool->unbegun.value)) > END;) {
    int number = left >> own & 1 ? own : __builtin_ctzll(left);
    uint64_t bit = (uint64_t)1 << number;
    if (!(atomic_fetch_and(&pool->unbegun.value, ~bit) & bit)) continue;
    if (pool->task(number, &pool->group, pool->data)) atomic_store(&pool->failed, 1);
    if (atomic_fetch_sub(&pool->unended.value, 1) == 1) odtc_awaken(&pool->unended);
  }
}

static void *work(void *argument) {
  struct worker *worker = argument;
  odtc_pool *pool = worker->pool;
  /* A system that refuses it, as for an app in the background, decides itself. */
  if (pool->known) bind(0, pool->places[worker->number - 1]);
  atomic_store_explicit(&worker->thread, own_number(), memory_order_release);
  for (;;) {
    odtc_await(&pool->unbegun, 0);
    if (atomic_load(&pool->unbegun.value) == END) return NULL;
    run_unbegun(pool, worker->number);
  }
}

static void offer(odtc_pool *pool, uint64_t tasks) {
  atomic_store(&pool->unbegun.value, tasks);
  odtc_awaken(&pool->unbegun);
}

/* One task after the other: where there is one thread, or a kernel counts more tasks than threads. */
static int run_in_turn(odtc_task task, void *data, int tasks) {
  odtc_task_group group = {NULL, tasks};
  for (int number = 0; number < tasks; ++number)
    if (task(number, &group, data)) return -1;
  return 0;
}

int odtc_pool_launch(odtc_task task, void *data, int tasks) {
  odtc_pool *pool = pthread_getspecific(pool_of_thread);
  int threads = pool ? pool->threads : 1;
  if (tasks <= 0) tasks = threads;
  if (threads == 1 || tasks > threads) return run_in_turn(task, data, tasks);
  pool->task = task, pool->data = data;
  pool->group = (odtc_task_group){NULL, tasks};
  atomic_store(&pool->failed, 0);
  atomic_store(&pool->unended.value, (uint64_t)tasks - 1);
  offer(pool, ((uint64_t)2 << (tasks - 1)) - 2); /* bits 1 to tasks - 1 */
  if (task(0, &pool->group, data)) atomic_store(&pool->failed, 1);
  run_unbegun(pool, 0);
  odtc_await(&pool->unended, 1);
  return -atomic_load(&pool->failed);
}

static odtc_code start_worker(odtc_pool *pool, const int *given, odtc_problem *problem) {
  struct worker *worker = pool->workers + pool->started;
  *worker = (struct worker){.pool = pool, .number = pool->started + 1};
  if (given && stay_on_core(given[worker->number], problem)) return problem->code;
  if (pthread_create(&worker->id, NULL, work, worker))
    return odtc_fail(problem, ODTC_NO_MEMORY, "the system starts %d of %d threads", worker->number,
                     pool->threads);
  ++pool->started;
  return ODTC_OK;
}

static odtc_code start_workers(odtc_pool *pool, const int *given, odtc_problem *problem) {
  odtc_code code = ODTC_OK;
  odtc_cores before;
  if (given) remember_cores(&before);
  while (!code && pool->started < pool->threads - 1) code = start_worker(pool, given, problem);
  if (given) leave_core(&before);
  return code;
}

/* Keeps the cores that workers may have, where each gets one of its own. */
static odtc_code place(odtc_pool *pool, const odtc_core *known, int count, odtc_problem *problem) {
  int workers = pool->threads - 1;
  if (!workers || !odtc_place_workers(known, count, odtc_core_of_caller(), workers, pool->places))
    return ODTC_OK;
  size_t bytes = (size_t)count * sizeof *known;
  if (!(pool->known = malloc(bytes)))
    return odtc_fail(problem, ODTC_NO_MEMORY, "there is no memory for threads");
  memcpy(pool->known, known, bytes);
  pool->known_count = count;
  return ODTC_OK;
}

odtc_code odtc_pool_make(int threads, const int *given, const odtc_core *known, int count,
                         odtc_pool **made, odtc_problem *problem) {
  pthread_once(&once, make_key);
  if (no_key)
    return odtc_fail(problem, ODTC_NO_MEMORY, "the process has no key for a variable of threads left");
  odtc_pool *pool = odtc_allocate(sizeof *pool);
  if (!pool) return odtc_fail(problem, ODTC_NO_MEMORY, "there is no memory for threads");
  *pool = (odtc_pool){.threads = threads};
  odtc_code code = given || !known ? ODTC_OK : place(pool, known, count, problem);
  if (!code) code = start_workers(pool, given, problem);
  if (code)
    odtc_pool_end(pool);
  else
    *made = pool;
  return code;
}

void odtc_pool_end(odtc_pool *pool) {
  if (!pool) return;
  offer(pool, END);
  for (int n = 0; n < pool->started; ++n) pthread_join(pool->workers[n].id, NULL);
  free(pool->known);
  free(pool);
}
