/* Kernels that fail, and a step that is cancelled between two micro-batches: what no kernel of odtc's
   does, put in the place of one. Called with program, weights, library, a checkpoint to write, and what
   is to happen. */
#include <stdio.h>
#include <string.h>

#include "trainer.h"

static odtc_trainer *trainer;
static odtc_kernel replaced;

static int fail(void *self, const odtc_kernel_value *arguments, int32_t count,
                odtc_kernel_value *result) {
  (void)self, (void)arguments, (void)count, (void)result;
  return -1;
}

static int second_task_fails(int number, odtc_task_group *group, void *data) {
  (void)group, (void)data;
  return number == 1 ? -1 : 0;
}

static int fail_in_a_thread(void *self, const odtc_kernel_value *arguments, int32_t count,
                            odtc_kernel_value *result) {
  (void)self, (void)arguments, (void)count, (void)result;
  return odtc_pool_launch(second_task_fails, NULL, 2);
}

static int cancel_after(void *self, const odtc_kernel_value *arguments, int32_t count,
                        odtc_kernel_value *result) {
  odtc_cancel(trainer, 1);
  return replaced(self, arguments, count, result);
}

static void say(odtc_code code) { printf("%d %s\n", code, code ? odtc_message(trainer) : ""); }

int main(int count, char **words) {
  static const struct {
    const char *name;
    odtc_kernel kernel;
  } CASES[] = {{"fails", fail}, {"fails-in-a-thread", fail_in_a_thread}, {"cancels", cancel_after}};
  if (count != 6) return 2;
  const odtc_options options = {.program = words[1], .weights = words[2], .library = words[3],
                                .threads = 2};
  const char *checkpoint = words[4];
  double loss;
  if (odtc_open(&options, &trainer)) return fprintf(stderr, "%s\n", odtc_message(trainer)), 1;
  say(odtc_save(trainer, checkpoint));
  /* The last call of a micro-batch: what comes after it is the first of the next. */
  const odtc_call *call = trainer->program.calls + trainer->plan->first + trainer->plan->calls - 1;
  odtc_kernel *place = trainer->library.kernels + call->kernel;
  replaced = *place;
  for (size_t n = 0; n < sizeof CASES / sizeof *CASES; ++n)
    if (!strcmp(CASES[n].name, words[5])) *place = CASES[n].kernel;
  say(odtc_step(trainer, 0.1f, &loss));
  *place = replaced;
  say(odtc_step(trainer, 0.1f, &loss));
  say(odtc_load(trainer, checkpoint));
  say(odtc_step(trainer, 0.1f, &loss));
  odtc_close(trainer);
  return 0;
}
