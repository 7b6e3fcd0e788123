/* A trainer of kernels that the loader finds by their name, and one of kernels that are linked in:
   sources PROGRAM WEIGHTS NAME [OTHER_NAME]. Prints the loss of a step of both as bits, and what comes of
   the library of another model. Compiled with -DKERNELS_FILE='"FILE"', which defines odtc_kernels_of_test. */
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
  int failed = odtc_open(&options, &kept);
  for (int n = 4; n < count && !failed; ++n) options.name = words[n], train(options);
  odtc_close(kept);
  return failed;
}
