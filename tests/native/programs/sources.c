/* A trainer of kernels that the loader finds by their name, and one of kernels that are linked in:
   sources PROGRAM WEIGHTS NAME OTHER_PROGRAM OTHER_WEIGHTS OTHER_NAME. Prints the loss of a step of both
   as bits, and, while one is open, that of another model, and what comes of names that do not fit.
   Compiled with -DKERNELS_FILE='"FILE"', which defines odtc_kernels_of_test. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "odtc.h"
#include KERNELS_FILE

static void train(odtc_options options) {
  odtc_trainer *trainer;
  double loss = 0;
  uint64_t bits;
  odtc_code code = odtc_open(&options, &trainer);
  if (!code) code = odtc_step(trainer, 0.05f, &loss);
  memcpy(&bits, &loss, sizeof bits);
  if (code)
    printf("%d %s\n", code, odtc_message(trainer));
  else
    printf("%016" PRIx64 "\n", bits);
  odtc_close(trainer);
}

int main(int count, char **words) {
  if (count != 7) return 2;
  odtc_options options = {.program = words[1], .weights = words[2], .threads = 2};
  train(options);
  options.name = words[3];
  train(options);
  options.kernels = &odtc_kernels_of_test;
  train(options);
  options.name = NULL;
  train(options);
  options.kernels = NULL, options.name = words[3];
  odtc_trainer *kept;
  double loss;
  if (odtc_open(&options, &kept) || odtc_step(kept, 0.05f, &loss)) return 1;
  train((odtc_options){.program = words[4], .weights = words[5], .name = words[6], .threads = 2});
  options.name = words[6];
  train(options);
  options.name = "libnone.so";
  train(options);
  odtc_code code = odtc_step(kept, 0.05f, &loss);
  odtc_close(kept);
  return (int)code;
}
