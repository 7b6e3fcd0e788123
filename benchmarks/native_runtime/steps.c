/* Takes a step for each byte on stdin, and says how many nanoseconds it took, with the copy of the batch:
   steps PROGRAM WEIGHTS LIBRARY THREADS BATCH. BATCH has what is fed, one tensor behind the other. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "odtc.h"

static long long now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1000000000ll + time.tv_nsec;
}

static void feed(odtc_trainer *trainer, const char *batch) {
  const odtc_tensor *tensor;
  for (size_t n = 0; (tensor = odtc_tensor_at(trainer, n)); ++n) {
    if (tensor->role > ODTC_LABEL) continue;
    memcpy(tensor->data, batch, tensor->bytes);
    batch += tensor->bytes;
  }
}

static char *read_batch(const char *path) {
  FILE *file = fopen(path, "rb");
  if (!file || fseek(file, 0, SEEK_END)) return NULL;
  size_t bytes = (size_t)ftell(file);
  char *batch = malloc(bytes);
  rewind(file);
  size_t read = batch ? fread(batch, 1, bytes, file) : 0;
  fclose(file);
  return read == bytes ? batch : NULL;
}

int main(int count, char **words) {
  char *batch = count == 6 ? read_batch(words[5]) : NULL;
  if (!batch) return fprintf(stderr, "steps PROGRAM WEIGHTS LIBRARY THREADS BATCH\n"), 2;
  odtc_options options = {.program = words[1], .weights = words[2], .library = words[3],
                          .threads = atoi(words[4])};
  odtc_trainer *trainer;
  double loss = 0;
  odtc_code code = odtc_open(&options, &trainer);
  for (char c; !code && read(0, &c, 1) == 1;) {
    long long start = now();
    feed(trainer, batch);
    if ((code = odtc_step(trainer, 0.01f, &loss))) break;
    printf("%lld %a\n", now() - start, loss);
    fflush(stdout);
  }
  if (code) fprintf(stderr, "%s\n", odtc_message(trainer));
  odtc_close(trainer);
  return code != ODTC_OK;
}
