/* Trains a small network on pictures that are made here, shows how far it is, and goes on where it was
   stopped: train FOLDER STEPS. FOLDER has the members of an artifact; Ctrl-C ends after the step that runs. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "odtc.h"

enum { STEPS_TO_A_LINE = 20, SIDE = 8, CLASSES = 10 };

static odtc_trainer *trainer;

static void stop(int signal) {
  (void)signal;
  odtc_cancel(trainer, 0); /* of all functions the one that may be called at any time */
}

static int failed(const char *what) {
  fprintf(stderr, "%s: %s\n", what, odtc_message(trainer));
  odtc_close(trainer);
  return 1;
}

/* A number in [0, 1) that follows from where it is used, so that a run that goes on sees what it would have. */
static float drawn(uint64_t number) {
  number = (number ^ number >> 30) * 0xBF58476D1CE4E5B9u;
  number = (number ^ number >> 27) * 0x94D049BB133111EBu;
  return (float)((number ^ number >> 31) >> 40) / (float)(1 << 24);
}

/* Pictures of one bright line each, in noise: the class says which line of the first five rows or columns. */
static void make_batch(int64_t step) {
  const odtc_tensor *images = NULL, *labels = NULL, *each;
  for (size_t n = 0; (each = odtc_tensor_at(trainer, n)); ++n) {
    if (each->role == ODTC_INPUT) images = each;
    if (each->role == ODTC_LABEL) labels = each;
  }
  size_t count = labels->bytes / sizeof(int32_t);
  for (size_t sample = 0; sample < count; ++sample) {
    uint64_t first = ((uint64_t)step * count + sample + 1) * 1000;
    int32_t class = (int32_t)(CLASSES * drawn(first * 77));
    ((int32_t *)labels->data)[sample] = class;
    for (int pixel = 0; pixel < SIDE * SIDE; ++pixel) {
      int line = class < CLASSES / 2 ? pixel / SIDE : pixel % SIDE;
      float bright = line == class % (CLASSES / 2) ? 0.5f : 0;
      ((float *)images->data)[sample * SIDE * SIDE + (size_t)pixel] = bright + drawn(first + (uint64_t)pixel);
    }
  }
}

int main(int count, char **words) {
  if (count != 3) return fprintf(stderr, "train FOLDER STEPS\n"), 2;
  char paths[4][1024];
  const char *names[] = {"program.bin", "parameters.safetensors", "step.so", "checkpoint"};
  for (int n = 0; n < 4; ++n) snprintf(paths[n], sizeof paths[n], "%s/%s", words[1], names[n]);
  odtc_options options = {.program = paths[0], .weights = paths[1], .library = paths[2]};
  if (odtc_open(&options, &trainer)) return failed("opening");
  if (!access(paths[3], R_OK)) {
    if (odtc_load(trainer, paths[3])) return failed("going on");
    printf("goes on after step %lld\n", (long long)odtc_steps(trainer));
  }
  signal(SIGINT, stop);
  signal(SIGTERM, stop);

  double loss = 0, sum = 0;
  odtc_code code = ODTC_OK;
  int64_t last = odtc_steps(trainer) + atoll(words[2]);
  while (odtc_steps(trainer) < last) {
    make_batch(odtc_steps(trainer));
    if ((code = odtc_step(trainer, 0.05f, &loss))) break;
    sum += loss;
    if (odtc_steps(trainer) % STEPS_TO_A_LINE) continue;
    printf("step %4lld  loss %.4f\n", (long long)odtc_steps(trainer), sum / STEPS_TO_A_LINE);
    fflush(stdout);
    sum = 0;
  }
  if (code && code != ODTC_CANCELLED) return failed("a step");
  if (odtc_save(trainer, paths[3])) return failed("saving");
  printf("%s after step %lld, in %s\n", code ? "stopped" : "done", (long long)odtc_steps(trainer), paths[3]);
  odtc_close(trainer);
  return 0;
}
