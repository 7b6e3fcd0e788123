/* Counts steps of odtc in the emulator: steps PROGRAM WEIGHTS LIBRARY BATCH STEPS RATE.
   BATCH has what is fed, one tensor behind the other. One step warms caches and pages up; what each of
   the others did is counted. Prints all losses; leaves the memory map in the file `maps`. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "map.h"
#include "odtc.h"

enum { MARK = 7777, BEGIN = 1, END = 2, WARM = 1 };

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
  int batch = count == 7 ? open(words[4], O_RDONLY) : -1;
  if (batch < 0) return fprintf(stderr, "steps PROGRAM WEIGHTS LIBRARY BATCH STEPS RATE\n"), 2;
  odtc_options options = {.program = words[1], .weights = words[2], .library = words[3], .threads = 1};
  odtc_trainer *trainer;
  odtc_code code = odtc_open(&options, &trainer);
  double loss = 0;
  float rate = strtof(words[6], NULL);
  for (int n = 0; n < WARM + atoi(words[5]) && !code; ++n) {
    if (!feed(trainer, batch)) return fprintf(stderr, "the batch is too short\n"), 3;
    syscall(MARK, BEGIN, 0);
    code = odtc_step(trainer, rate, &loss);
    if (n >= WARM) syscall(MARK, END, n - WARM);
    if (!code) printf("%.9g\n", loss);
  }
  if (code) fprintf(stderr, "%s\n", odtc_message(trainer));
  copy_map();
  odtc_close(trainer);
  return code != ODTC_OK;
}
