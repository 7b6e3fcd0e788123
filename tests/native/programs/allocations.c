/* Counts what is allocated while steps are taken: allocations PROGRAM WEIGHTS LIBRARY STEPS THREADS. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "odtc.h"

static atomic_long allocated;

/* In the place of the C library's, for all of this process. */
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *malloc(size_t bytes) {
  atomic_fetch_add(&allocated, 1);
  return __libc_malloc(bytes);
}
void *calloc(size_t count, size_t bytes) {
  atomic_fetch_add(&allocated, 1);
  return __libc_calloc(count, bytes);
}

static int failed(odtc_trainer *trainer) { return fprintf(stderr, "%s\n", odtc_message(trainer)), 1; }

int main(int count, char **words) {
  if (count != 6) return 2;
  odtc_options options = {.program = words[1], .weights = words[2], .library = words[3],
                          .threads = atoi(words[5])};
  odtc_trainer *trainer;
  odtc_tensor result;
  double loss;
  long before = allocated;
  if (odtc_open(&options, &trainer) || odtc_step(trainer, 0.01f, &loss)) return failed(trainer);
  long opening = allocated - before;
  before = allocated;
  for (int n = atoi(words[4]); n; --n)
    if (odtc_step(trainer, 0.01f, &loss)) return failed(trainer);
  if (odtc_evaluate(trainer, NULL, 0, &result)) return failed(trainer);
  printf("%ld %ld\n", opening, allocated - before);
  odtc_close(trainer);
  return 0;
}
