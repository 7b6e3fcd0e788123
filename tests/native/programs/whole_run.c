/* A whole run, for its bytes to be compared: whole_run PROGRAM WEIGHTS KERNELS BATCHES RESULTS THREADS STEPS
   RATE BUDGETS [OUTPUT...]. KERNELS is a path, or a name that the loader finds; with -DKERNELS_FILE='"FILE"', which
   defines odtc_kernels_of_test, they are linked in. BATCHES has what each step is fed, RESULTS gets each loss,
   what a step leaves behind, and each output of the last batch, by weights and, where there are, averages. After
   half of the steps the run goes on from a checkpoint in another trainer; each step takes the next of BUDGETS,
   which are joined by commas, or -. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "odtc.h"

#ifdef KERNELS_FILE
#include KERNELS_FILE
#endif

/* What bionic calls it. */
int *__errno(void);
int *__errno(void) { return &errno; }

static void check(odtc_code code, const odtc_trainer *trainer) {
  if (!code) return;
  fprintf(stderr, "%d %s\n", code, odtc_message(trainer));
  exit(1);
}

static odtc_trainer *opened(char **words, const char *checkpoint) {
  odtc_options options = {.program = words[1], .weights = words[2], .threads = atoi(words[6]),
                          .storage = "."};
#ifdef KERNELS_FILE
  options.kernels = &odtc_kernels_of_test;
#else
  *(strchr(words[3], '/') ? &options.library : &options.name) = words[3];
#endif
  odtc_trainer *trainer;
  check(odtc_open(&options, &trainer), trainer);
  if (checkpoint) check(odtc_load(trainer, checkpoint), trainer);
  return trainer;
}

static void feed(odtc_trainer *trainer, FILE *batches) {
  const odtc_tensor *tensor;
  for (size_t n = 0; (tensor = odtc_tensor_at(trainer, n)); ++n)
    if (tensor->role <= ODTC_LABEL && fread(tensor->data, 1, tensor->bytes, batches) != tensor->bytes)
      exit(3);
}

/* Returns whether there are averages. */
static int write_tensors(const odtc_trainer *trainer, FILE *results) {
  const odtc_tensor *tensor;
  int averages = 0;
  for (size_t n = 0; (tensor = odtc_tensor_at(trainer, n)); ++n)
    if (tensor->role >= ODTC_PARAMETER && tensor->role <= ODTC_AVERAGE) {
      fwrite(tensor->data, 1, tensor->bytes, results);
      averages |= tensor->role == ODTC_AVERAGE;
    }
  return averages;
}

/* Takes a budget from the front of a list, which begins again at its end. */
static unsigned long long next_budget(const char **at, const char *all) {
  char *end;
  unsigned long long bytes = strtoull(*at, &end, 10);
  *at = *end ? end + 1 : all;
  return bytes;
}

int main(int count, char **words) {
  if (count < 10) return 2;
  FILE *batches = fopen(words[4], "rb"), *results = fopen(words[5], "wb");
  char checkpoint[1024];
  if (!batches || !results) return 3;
  snprintf(checkpoint, sizeof checkpoint, "%s.checkpoint", words[5]);
  const char *budget = words[9];
  int steps = atoi(words[7]);
  odtc_trainer *trainer = opened(words, NULL);
  for (int n = 0; n < steps; ++n) {
    double loss;
    if (n == steps / 2) {
      check(odtc_save(trainer, checkpoint), trainer);
      odtc_close(trainer);
      trainer = opened(words, checkpoint);
    }
    if (*words[9] != '-') check(odtc_set_budget(trainer, next_budget(&budget, words[9])), trainer);
    feed(trainer, batches);
    check(odtc_step(trainer, strtof(words[8], NULL), &loss), trainer);
    fwrite(&loss, sizeof loss, 1, results);
  }
  int averages = write_tensors(trainer, results);
  for (int n = 10; n < count; ++n)
    for (int by = 0; by <= averages; ++by) {
      odtc_tensor found;
      check(odtc_evaluate(trainer, words[n], by, &found), trainer);
      fwrite(found.data, 1, found.bytes, results);
    }
  write_tensors(trainer, results); /* no evaluation changes them */
  odtc_close(trainer);
  return fclose(results) != 0;
}
