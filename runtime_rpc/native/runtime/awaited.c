#include "awaited.h"

#include "clock.h"

/* A kernel follows the last one in less time than a thread takes to wake up, so a thread looks for so
   many nanoseconds before it sleeps. It does not yield: where others want the core, the system takes
   that for leave to run all of them first, while a thread that slept is soon on a core once woken. */
enum { LOOKED = 100000, LOOKS_AT_ONCE = 64 };

void odtc_awaited_make(odtc_awaited *awaited) {
  pthread_mutex_init(&awaited->lock, NULL);
  pthread_cond_init(&awaited->changed, NULL);
}

void odtc_awaited_end(odtc_awaited *awaited) {
  pthread_cond_destroy(&awaited->changed);
  pthread_mutex_destroy(&awaited->lock);
}

static int has_come(odtc_awaited *awaited, int is_zero) {
  return (atomic_load(&awaited->value) == 0) == is_zero;
}

static int comes_soon(odtc_awaited *awaited, int is_zero) {
  int64_t end = 0;
  for (unsigned looks = 1;; ++looks) {
    if (has_come(awaited, is_zero)) return 1;
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
  pthread_mutex_lock(&awaited->lock);
  while (!has_come(awaited, is_zero)) {
    /* Said before it looks again: whoever changes the value later sees that somebody sleeps. */
    atomic_store(&awaited->asleep, 1);
    if (!has_come(awaited, is_zero)) pthread_cond_wait(&awaited->changed, &awaited->lock);
  }
  pthread_mutex_unlock(&awaited->lock);
}

void odtc_awaken(odtc_awaited *awaited) {
  if (!atomic_load(&awaited->asleep)) return;
  pthread_mutex_lock(&awaited->lock);
  atomic_store(&awaited->asleep, 0);
  pthread_mutex_unlock(&awaited->lock);
  pthread_cond_broadcast(&awaited->changed);
}
