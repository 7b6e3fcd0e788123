#define _GNU_SOURCE
/* Steps of a trainer whose workers come late: late_workers PROGRAM WEIGHTS LIBRARY THREADS LATE. So many
   workers are kept from all work, in the handler of a signal, from the second step to the last but one.
   Prints the loss of each. A step that waits for them ends the process. */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "odtc.h"

enum { STEPS = 6, MOST_SECONDS = 30 };

static int kept[2], released[2]; /* pipes, with a byte for each worker */

static void say(const int *to) {
  if (write(to[1], "", 1) != 1) _exit(3);
}

static void wait_for(const int *from) {
  char byte;
  if (read(from[0], &byte, 1) != 1) _exit(4);
}

static void keep(int number) {
  (void)number;
  say(kept);
  wait_for(released);
}

/* Of a thread that computes or looks for work another one may wait, for a lock that it holds. */
static void wait_until_asleep(pid_t task) {
  char path[64], state = 0;
  snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)task);
  while (state != 'S') {
    FILE *file = fopen(path, "r");
    if (!file || fscanf(file, "%*d (%*[^)]) %c", &state) != 1) _exit(5);
    fclose(file);
  }
}

/* Keeps so many threads of this process, but the calling one, in a handler. */
static void keep_workers(int most) {
  DIR *tasks = opendir("/proc/self/task");
  pid_t own = (pid_t)syscall(SYS_gettid);
  for (struct dirent *entry; (entry = readdir(tasks));) {
    pid_t task = atoi(entry->d_name);
    if (!task || task == own || most-- <= 0) continue;
    wait_until_asleep(task);
    syscall(SYS_tgkill, getpid(), task, SIGUSR1);
    wait_for(kept);
  }
  closedir(tasks);
}

static void feed(odtc_trainer *trainer) {
  const odtc_tensor *tensor;
  for (size_t n = 0; (tensor = odtc_tensor_at(trainer, n)); ++n)
    for (size_t i = 0; tensor->role == ODTC_INPUT && i < tensor->bytes / sizeof(float); ++i)
      ((float *)tensor->data)[i] = (float)(i * 7919 % 1000) / 500 - 1;
}

int main(int count, char **words) {
  if (count != 6) return 2;
  const odtc_options options = {.program = words[1], .weights = words[2], .library = words[3],
                                .threads = atoi(words[4])};
  int late = atoi(words[5]);
  odtc_trainer *trainer;
  double loss;
  if (pipe(kept) || pipe(released)) return 6;
  signal(SIGUSR1, keep);
  alarm(MOST_SECONDS);
  if (odtc_open(&options, &trainer)) return fprintf(stderr, "%s\n", odtc_message(trainer)), 1;
  feed(trainer);
  for (int step = 0; step < STEPS; ++step) {
    if (step == 1) keep_workers(late);
    for (int n = 0; step == STEPS - 1 && n < late; ++n) say(released);
    if (odtc_step(trainer, 0.05f, &loss)) return fprintf(stderr, "%s\n", odtc_message(trainer)), 1;
    printf("%a\n", loss);
  }
  odtc_close(trainer);
  return 0;
}
