#define _GNU_SOURCE
#include "pool.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "memory.h"

/* A kernel follows the last one in less time than a thread takes to wake up: a worker looks for it
   so many times, some tens of microseconds, before it sleeps. */
enum { LOOKS = 2000, LOOKS_BETWEEN_YIELDS = 64 };

struct odtc_pool {
  _Alignas(64) atomic_uint round; /* goes up when there is something to do */
  _Alignas(64) atomic_int pending;
  atomic_int failed, sleepers, stopped;
  odtc_task task;
  void *data;
  odtc_task_group group;
  int threads, started;
  odtc_core *known; /* where workers have cores of their own: all that they may have */
  int known_count;
  int places[ODTC_MOST_THREADS]; /* the core of each worker, then */
  pthread_mutex_t lock;
  pthread_cond_t wake;
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

static void wait_a_little(int looks) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
  if (looks % LOOKS_BETWEEN_YIELDS == LOOKS_BETWEEN_YIELDS - 1) sched_yield();
}

static void wait_for_round(odtc_pool *pool, unsigned seen) {
  for (int n = 0; n < LOOKS; ++n) {
    if (atomic_load_explicit(&pool->round, memory_order_acquire) != seen) return;
    wait_a_little(n);
  }
  pthread_mutex_lock(&pool->lock);
  /* Counted before it looks again: whoever starts a round later sees that somebody sleeps. */
  atomic_fetch_add(&pool->sleepers, 1);
  while (atomic_load(&pool->round) == seen) pthread_cond_wait(&pool->wake, &pool->lock);
  atomic_fetch_sub(&pool->sleepers, 1);
  pthread_mutex_unlock(&pool->lock);
}

static void *work(void *argument) {
  struct worker *worker = argument;
  odtc_pool *pool = worker->pool;
  /* A system that refuses it, as for an app in the background, decides itself. */
  if (pool->known) bind(0, pool->places[worker->number - 1]);
  atomic_store_explicit(&worker->thread, own_number(), memory_order_release);
  for (unsigned seen = 0;; ++seen) {
    wait_for_round(pool, seen);
    if (atomic_load(&pool->stopped)) return NULL;
    if (worker->number < pool->group.tasks && pool->task(worker->number, &pool->group, pool->data))
      atomic_store(&pool->failed, 1);
    atomic_fetch_sub_explicit(&pool->pending, 1, memory_order_acq_rel);
  }
}

static void start_round(odtc_pool *pool) {
  atomic_fetch_add(&pool->round, 1);
  if (!atomic_load(&pool->sleepers)) return;
  pthread_mutex_lock(&pool->lock);
  pthread_cond_broadcast(&pool->wake);
  pthread_mutex_unlock(&pool->lock);
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
  atomic_store(&pool->pending, threads - 1); /* each answers, though it may have no task */
  start_round(pool);
  int failed = task(0, &pool->group, data);
  for (int n = 0; atomic_load_explicit(&pool->pending, memory_order_acquire); ++n) wait_a_little(n);
  return failed || atomic_load(&pool->failed) ? -1 : 0;
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
    return odtc_fail(problem, ODTC_NO_MEMORY, "there is no memory for %d cores", count);
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
  pthread_mutex_init(&pool->lock, NULL);
  pthread_cond_init(&pool->wake, NULL);
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
  atomic_store(&pool->stopped, 1);
  start_round(pool);
  for (int n = 0; n < pool->started; ++n) pthread_join(pool->workers[n].id, NULL);
  pthread_cond_destroy(&pool->wake);
  pthread_mutex_destroy(&pool->lock);
  free(pool->known);
  free(pool);
}
