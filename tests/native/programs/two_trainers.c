#define _GNU_SOURCE
/* Two trainers of one process, each in a thread of its own with a pool of its own, that share a library:
   two_trainers PROGRAM WEIGHTS LIBRARY STEPS THREADS. Prints the losses of both, and what a third
   thread's cancelling came to. Their calls are timed, and on the way their threads move to one core. */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "odtc.h"

typedef struct {
  odtc_options options;
  int steps;
  odtc_trainer *trainer;
  double losses[1000];
} run;

/* Numbers that are unlike each other, in [-1, 1). */
static void feed(odtc_trainer *trainer) {
  const odtc_tensor *tensor;
  for (size_t n = 0; (tensor = odtc_tensor_at(trainer, n)); ++n)
    for (size_t i = 0; tensor->role == ODTC_INPUT && i < tensor->bytes / sizeof(float); ++i)
      ((float *)tensor->data)[i] = (float)(i * 7919 % 1000) / 500 - 1;
}

static void check(const run *r, odtc_code code) {
  if (!code) return;
  fprintf(stderr, "%s\n", odtc_message(r->trainer));
  exit(1);
}

static void *train(void *argument) {
  run *r = argument;
  const odtc_timed_call *calls;
  odtc_tensor result;
  size_t count;
  int here = sched_getcpu(), cores[] = {here, here};
  check(r, odtc_start_clock(r->trainer));
  for (int n = 0; n < r->steps; ++n) {
    if (n == r->steps / 2) check(r, odtc_set_cores(r->trainer, cores, 2));
    check(r, odtc_step(r->trainer, 0.05f, r->losses + n));
    check(r, odtc_evaluate_part(r->trainer, NULL, 0, &result));
    for (uint32_t some = odtc_samples_of_step(r->trainer); some; --some)
      check(r, odtc_evaluate_samples(r->trainer, NULL, n % 2, some, &result));
  }
  check(r, odtc_stop_clock(r->trainer, &calls, &count));
  for (size_t n = 1; n < count; ++n)
    if (calls[n].begin < calls[n - 1].end || calls[n].end < calls[n].begin) exit(3);
  if (count < (size_t)r->steps) exit(4);
  return NULL;
}

/* Steps until one is cancelled. */
static void *train_on(void *argument) {
  run *r = argument;
  odtc_code code;
  while (!(code = odtc_step(r->trainer, 0.05f, r->losses))) continue;
  return (void *)(intptr_t)code;
}

int main(int count, char **words) {
  static run runs[2];
  pthread_t threads[2];
  void *ended;
  if (count != 6 || atoi(words[4]) > 1000) return 2;
  for (int n = 0; n < 2; ++n) {
    runs[n].options = (odtc_options){.program = words[1], .weights = words[2], .library = words[3],
                                     .threads = atoi(words[5])};
    runs[n].steps = atoi(words[4]);
    if (odtc_open(&runs[n].options, &runs[n].trainer))
      return fprintf(stderr, "%s\n", odtc_message(runs[n].trainer)), 1;
    feed(runs[n].trainer);
  }
  for (int n = 0; n < 2; ++n) pthread_create(threads + n, NULL, train, runs + n);
  for (int n = 0; n < 2; ++n) pthread_join(threads[n], NULL);
  for (int n = 0; n < runs[0].steps; ++n) printf("%a %a\n", runs[0].losses[n], runs[1].losses[n]);
  for (int now = 0; now < 2; ++now) {
    pthread_create(threads, NULL, train_on, runs);
    odtc_cancel(runs[0].trainer, now);
    pthread_join(threads[0], &ended);
    printf("%d\n", (int)(intptr_t)ended);
  }
  for (int n = 0; n < 2; ++n) odtc_close(runs[n].trainer);
  return 0;
}
