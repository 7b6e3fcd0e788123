/* Steps as an app on Android takes them, with kernels that the loader finds by their name:
   by_name FOLDER NAME STEPS THREADS CHECKPOINT. Prints each loss; after half of the steps it goes on from a
   checkpoint, in another trainer. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "odtc.h"

/* What bionic calls it. */
int *__errno(void);
int *__errno(void) { return &errno; }

static int failed(odtc_code code, odtc_trainer *trainer) {
  if (code) fprintf(stderr, "%d %s\n", code, odtc_message(trainer));
  return code != ODTC_OK;
}

/* Numbers in [-1, 1), and classes below 10. */
static void feed(odtc_trainer *trainer) {
  const odtc_tensor *tensor;
  for (size_t n = 0; (tensor = odtc_tensor_at(trainer, n)); ++n)
    for (size_t i = 0; tensor->role <= ODTC_LABEL && i < tensor->bytes / 4; ++i)
      if (tensor->role == ODTC_INPUT)
        ((float *)tensor->data)[i] = (float)(i * 37 % 101) / 50 - 1;
      else
        ((int32_t *)tensor->data)[i] = (int32_t)(i % 10);
}

static odtc_trainer *opened(char **words, const char *checkpoint) {
  char program[1024], weights[1024];
  snprintf(program, sizeof program, "%s/program.bin", words[1]);
  snprintf(weights, sizeof weights, "%s/parameters.safetensors", words[1]);
  odtc_options options = {.program = program, .weights = weights, .name = words[2],
                          .threads = atoi(words[4])};
  odtc_trainer *trainer;
  if (failed(odtc_open(&options, &trainer), trainer)) exit(1);
  if (checkpoint && failed(odtc_load(trainer, checkpoint), trainer)) exit(1);
  feed(trainer);
  return trainer;
}

int main(int count, char **words) {
  if (count != 6) return 2;
  int steps = atoi(words[3]);
  odtc_trainer *trainer = opened(words, NULL);
  for (int n = 0; n < steps; ++n) {
    double loss;
    if (n == steps / 2) {
      if (failed(odtc_save(trainer, words[5]), trainer)) return 1;
      odtc_close(trainer);
      trainer = opened(words, words[5]);
    }
    if (failed(odtc_step(trainer, 0.01f, &loss), trainer)) return 1;
    printf("%a\n", loss);
  }
  odtc_close(trainer);
  return 0;
}
