/* Takes a step for each byte on stdin, and says how many nanoseconds it took, with the copy of the batch:
   steps PROGRAM WEIGHTS LIBRARY THREADS BATCH. BATCH has what is fed, one tensor behind the other. */
#define _POSIX_C_SOURCE 200809L
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "odtc.h"

static long long now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1000000000ll + time.tv_nsec;
}

/* Reads the batch into the step's own memory, so that the process holds it once. */
static int feed(odtc_trainer *trainer, int batch) {
  const odtc_tensor *tensor;
  off_t at = 0;
  for (size_t n = 0; (tensor = odtc_tensor_at(trainer, n)); ++n) {
    if (tensor->role > ODTC_LABEL) continue;
    if (pread(batch, tensor->data, tensor->bytes, at) != (ssize_t)tensor->bytes) return 0;
    at += (off_t)tensor->bytes;
  }
  return 1;
}

int main(int count, char **words) {
  int batch = count == 6 ? open(words[5], O_RDONLY) : -1;
  if (batch < 0) return fprintf(stderr, "steps PROGRAM WEIGHTS LIBRARY THREADS BATCH\n"), 2;
  odtc_options options = {.program = words[1], .weights = words[2], .library = words[3],
                          .threads = atoi(words[4])};
  odtc_trainer *trainer;
  double loss = 0;
  odtc_code code = odtc_open(&options, &trainer);
  for (char c; !code && read(0, &c, 1) == 1;) {
    long long start = now();
    if (!feed(trainer, batch)) return fprintf(stderr, "the batch is too short\n"), 3;
    if ((code = odtc_step(trainer, 0.01f, &loss))) break;
    printf("%lld %a\n", now() - start, loss);
    fflush(stdout);
  }
  if (code) fprintf(stderr, "%s\n", odtc_message(trainer));
  odtc_close(trainer);
  return code != ODTC_OK;
}
