#define _GNU_SOURCE
#include "awaited.h"

#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#else
#include <pthread.h>
#endif

#include "clock.h"

/* A kernel follows the last one in less time than a thread takes to wake up, so a thread looks for so
   many nanoseconds before it sleeps. It does not yield: where others want the core, the system takes
   that for leave to run all of them first, while a thread that slept is soon on a core once woken. */
enum { LOOKED = 100000, LOOKS_AT_ONCE = 64 };

#ifdef __linux__
/* Not by a condition variable: who wakes others by one of glibc's may have to wait for a thread that was
   woken before, and is not on a core yet. A futex looks at the lower half of the value. */
enum { WAIT_IN_PROCESS = 128, WAKE_IN_PROCESS = 129 };

static void sleep_at(odtc_awaited *awaited, uint64_t seen) {
  syscall(SYS_futex, &awaited->value, WAIT_IN_PROCESS, (uint32_t)seen, NULL);
}

static void wake_all(odtc_awaited *awaited) {
  syscall(SYS_futex, &awaited->value, WAKE_IN_PROCESS, INT32_MAX);
}
#else
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static void sleep_at(odtc_awaited *awaited, uint64_t seen) {
  pthread_mutex_lock(&lock);
  if (atomic_load(&awaited->value) == seen) pthread_cond_wait(&changed, &lock);
  pthread_mutex_unlock(&lock);
}

static void wake_all(odtc_awaited *awaited) {
  (void)awaited;
  pthread_mutex_lock(&lock);
  pthread_mutex_unlock(&lock);
  pthread_cond_broadcast(&changed);
}
#endif

static int comes_soon(odtc_awaited *awaited, int is_zero) {
  int64_t end = 0;
  for (unsigned looks = 1;; ++looks) {
    if ((atomic_load(&awaited->value) == 0) == is_zero) return 1;
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
    if (looks % LOOKS_AT_ONCE) continue;
    int64_t now = odtc_now();
    if (!end) end = now + LOOKED;
    if (now >= end) return 0;
  }
}

void odtc_await(odtc_awaited *awaited, int is_zero) {
  if (comes_soon(awaited, is_zero)) return;
  /* Counted before it looks again: whoever changes the value later sees that somebody sleeps. */
  atomic_fetch_add(&awaited->sleepers, 1);
  for (uint64_t seen; ((seen = atomic_load(&awaited->value)) == 0) != is_zero;) sleep_at(awaited, seen);
  atomic_fetch_sub(&awaited->sleepers, 1);
}

void odtc_awaken(odtc_awaited *awaited) {
  if (atomic_load(&awaited->sleepers)) wake_all(awaited);
}
