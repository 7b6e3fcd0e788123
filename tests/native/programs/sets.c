/* The kernels that a trainer runs: sets PROGRAM WEIGHTS LIBRARY ACTION... An action is `-`, which takes
   a step and prints its loss, or cores, as 4,5, one for each thread. Before and after it the core is
   printed that the kernels are for. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "odtc.h"

static odtc_code use_cores(odtc_trainer *trainer, char *words) {
  int cores[64], count = 0;
  for (char *word = strtok(words, ","); word; word = strtok(NULL, ",")) cores[count++] = atoi(word);
  return odtc_set_cores(trainer, cores, count);
}

static void feed(odtc_trainer *trainer) {
  const odtc_tensor *tensor;
  for (size_t n = 0; (tensor = odtc_tensor_at(trainer, n)); ++n)
    for (size_t i = 0; tensor->role == ODTC_INPUT && i < tensor->bytes / sizeof(float); ++i)
      ((float *)tensor->data)[i] = (float)(i * 7919 % 1000) / 500 - 1;
}

int main(int count, char **words) {
  if (count < 4) return 2;
  odtc_options options = {.program = words[1], .weights = words[2], .library = words[3], .threads = 2};
  odtc_trainer *trainer;
  double loss;
  odtc_code code = odtc_open(&options, &trainer);
  if (!code) puts(odtc_fact(trainer, "core")), feed(trainer);
  for (int n = 4; !code && n < count; ++n) {
    code = *words[n] == '-' ? odtc_step(trainer, 0.1f, &loss) : use_cores(trainer, words[n]);
    if (!code && *words[n] == '-') printf("%a\n", loss);
    if (!code) puts(odtc_fact(trainer, "core"));
  }
  if (code) fprintf(stderr, "%d %s\n", code, odtc_message(trainer));
  odtc_close(trainer);
  return code;
}
