/* Trains a small network on pictures that are made here until so many steps were taken in all, shows how far it
   is, and goes on where it was stopped: train MODEL CHECKPOINT STEPS [SYS]. MODEL is the folder of that name
   that `odtc export-app` wrote. Ctrl-C and SIGTERM end it after the step that runs. At the end it counts how many
   of some other pictures the network tells right. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "conditions.h"
#include "odtc.h"

/* So many steps are lost at most when the process is killed. A step of a larger model takes longer than it takes to
   write its checkpoint: one of yours may write fewer. */
enum { STEPS_TO_A_CHECKPOINT = 1 };
enum { SIDE = 8, CLASSES = 10, OTHERS = 1000 };
static const uint64_t FIRST_OTHER = (uint64_t)1 << 40; /* no step gets as far */
enum { PATH = 1024 };
enum { TRAINED = 0, FAILED = 1, MISUSED = 2, LATER = 75 /* EX_TEMPFAIL of sysexits.h: to be started again */ };

static odtc_trainer *trainer;

static void stop(int signal) {
  (void)signal;
  odtc_cancel(trainer, 0); /* of all functions the one that may be called at any time */
}

static int failed(const char *what) {
  fprintf(stderr, "%s: %s\n", what, odtc_message(trainer));
  odtc_close(trainer);
  return FAILED;
}

/* Where a checkpoint is set aside that is of no use, beside its path. */
static void place_aside(char place[PATH], const char *checkpoint, const char *why) {
  snprintf(place, PATH, "%s.%s", checkpoint, why);
}

static int set_aside(const char *checkpoint, const char *why) {
  char place[PATH];
  place_aside(place, checkpoint, why);
  if (rename(checkpoint, place)) return perror(place), FAILED;
  fprintf(stderr, "training begins anew: the checkpoint is now %s\n", place);
  return 0;
}

/* Goes on from the checkpoint, unless it is damaged, or of another step, as after an update of MODEL. */
static int resume(const char *checkpoint) {
  switch (odtc_load(trainer, checkpoint)) { /* what it refuses changes nothing */
    case ODTC_OK:
      printf("goes on after step %lld\n", (long long)odtc_steps(trainer));
      return 0;
    case ODTC_DAMAGED:
    case ODTC_MISFIT:
    case ODTC_UNSUPPORTED:
      fprintf(stderr, "%s\n", odtc_message(trainer));
      return set_aside(checkpoint, "unfit");
    default:
      return FAILED;
  }
}

/* The same batch would not be finite again from the same checkpoint: after that training began anew, with this. */
static float learning_rate(const char *checkpoint) {
  char place[PATH];
  place_aside(place, checkpoint, "not-finite");
  return access(place, F_OK) ? 0.05f : 0.005f;
}

/* A number in [0, 1) that follows from where it is used, so that a run that goes on sees what it would have. */
static float drawn(uint64_t number) {
  number = (number ^ number >> 30) * 0xBF58476D1CE4E5B9u;
  number = (number ^ number >> 27) * 0x94D049BB133111EBu;
  return (float)((number ^ number >> 31) >> 40) / (float)(1 << 24);
}

/* Pictures of one bright line each, in noise: the class says which line of the first five rows or columns. They
   are written to the step's own memory. */
static void make_pictures(uint64_t number, uint32_t count) {
  const odtc_tensor *images = odtc_find(trainer, "image"), *labels = odtc_find(trainer, "label");
  for (size_t sample = 0; sample < count; ++sample) {
    uint64_t first = (number + sample + 1) * 1000;
    int32_t class = (int32_t)(CLASSES * drawn(first * 77));
    ((int32_t *)labels->data)[sample] = class;
    for (int pixel = 0; pixel < SIDE * SIDE; ++pixel) {
      int line = class < CLASSES / 2 ? pixel / SIDE : pixel % SIDE;
      float bright = line == class % (CLASSES / 2) ? 0.5f : 0;
      ((float *)images->data)[sample * SIDE * SIDE + (size_t)pixel] = bright + drawn(first + (uint64_t)pixel);
    }
  }
}

static uint32_t class_of(const float *scores) {
  uint32_t best = 0;
  for (uint32_t n = 1; n < CLASSES; ++n)
    if (scores[n] > scores[best]) best = n;
  return best;
}

/* How many pictures that no step has seen are told right: in batches, the last of them as full as it is. */
static odtc_code count_right(uint32_t *right) {
  const int32_t *labels = odtc_find(trainer, "label")->data;
  uint32_t batch = odtc_samples_of_step(trainer);
  odtc_tensor scores;
  *right = 0;
  for (uint32_t done = 0, count; done < OTHERS; done += count) {
    count = OTHERS - done < batch ? OTHERS - done : batch;
    make_pictures(FIRST_OTHER + done, count);
    odtc_code code = odtc_evaluate_samples(trainer, NULL, 0, count, &scores);
    if (code) return code;
    for (uint32_t n = 0; n < count; ++n)
      *right += class_of((const float *)scores.data + n * CLASSES) == (uint32_t)labels[n];
  }
  return ODTC_OK;
}

/* Takes steps until there are so many, it is told to stop, or has a reason to wait, which it gives. */
static odtc_code train(int64_t steps, const char *checkpoint, const char *sys, const char **reason) {
  float rate = learning_rate(checkpoint);
  const char *end = isatty(1) ? "\r" : "\n";
  uint32_t batch = odtc_samples_of_step(trainer);
  odtc_code code = ODTC_OK;
  time_t looked = 0;
  while (odtc_steps(trainer) < steps) {
    double loss;
    if (time(NULL) != looked && (*reason = reason_to_wait(sys))) break;
    looked = time(NULL);
    make_pictures((uint64_t)odtc_steps(trainer) * batch, batch);
    if ((code = odtc_step(trainer, rate, &loss))) break;
    int64_t taken = odtc_steps(trainer);
    if (taken % STEPS_TO_A_CHECKPOINT == 0 && (code = odtc_save(trainer, checkpoint))) break;
    printf("step %lld of %lld  loss %.4f%s", (long long)taken, (long long)steps, loss, end);
    fflush(stdout);
  }
  return code;
}

int main(int count, char **words) {
  if (count != 4 && count != 5) return fprintf(stderr, "train MODEL CHECKPOINT STEPS [SYS]\n"), MISUSED;
  const char *checkpoint = words[2], *sys = count == 5 ? words[4] : "/sys", *reason = NULL;
  const char *names[] = {"program.bin", "parameters.safetensors", "libdigits_kernels.so"};
  char paths[3][PATH];
  for (int n = 0; n < 3; ++n) snprintf(paths[n], sizeof paths[n], "%s/%s", words[1], names[n]);
  odtc_options options = {.program = paths[0], .weights = paths[1], .library = paths[2]};
  if (odtc_open(&options, &trainer)) return failed("opening");
  if (!access(checkpoint, F_OK) && resume(checkpoint)) return failed("going on");
  if (access(checkpoint, F_OK) && odtc_save(trainer, checkpoint)) return failed("saving");
  signal(SIGINT, stop);
  signal(SIGTERM, stop);

  odtc_code code = train(atoll(words[3]), checkpoint, sys, &reason);
  if (code == ODTC_NOT_FINITE) set_aside(checkpoint, "not-finite"); /* for the next run */
  if (code && code != ODTC_CANCELLED) return failed("training");
  if (odtc_save(trainer, checkpoint)) return failed("saving");
  uint32_t right;
  if (!reason && !code) {
    if (count_right(&right)) return failed("an evaluation");
    printf("%u of %u other pictures are told right\n", right, OTHERS);
  }
  const char *why = reason ? reason : code ? "stopped" : "done";
  printf("%s after step %lld, in %s\n", why, (long long)odtc_steps(trainer), checkpoint);
  odtc_close(trainer);
  return reason ? LATER : TRAINED;
}
