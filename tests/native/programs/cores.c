/* Which cores workers get, by the functions that the runtime places them by, for lines of
   ROOT CALLER WORKERS NUMBER...: the cores that files below ROOT describe. Or `-` and
   NUMBER:CAPACITY:FREQUENCY:PHYSICAL, of which the last may be left out. Prints the cores in their
   order with their parts, the places of the workers, and for each of these the place that its worker
   gets when the caller comes there. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cores.h"

enum { MOST = 1024 };

static void answer(char *line) {
  odtc_core cores[MOST];
  int places[MOST], count = 0;
  const char *root = strtok(line, " ");
  int caller = atoi(strtok(NULL, " ")), workers = atoi(strtok(NULL, " "));
  for (char *word; (word = strtok(NULL, " \n"));) {
    odtc_core *core = cores + count++;
    *core = (odtc_core){0};
    core->physical = (uint32_t)atoi(word);
    sscanf(word, "%d:%u:%u:%u", &core->number, &core->capacity, &core->frequency, &core->physical);
  }
  if (strcmp(root, "-")) odtc_describe_cores(root, cores, count);
  odtc_sort_cores(cores, count, caller);
  for (int n = 0; n < count; ++n) printf("%d:%x ", cores[n].number, cores[n].part);
  int placed = odtc_place_workers(cores, count, caller, workers, places) ? workers : 0;
  for (int n = 0; n < placed; ++n) printf("%s%d", n ? " " : "|", places[n]);
  for (int n = 0; n < placed; ++n)
    printf("%s%d", n ? " " : "|", odtc_other_place(cores, count, places[n], workers, places));
  puts(placed ? "" : "||");
}

int main(void) {
  static char line[1 << 16];
  while (fgets(line, sizeof line, stdin)) answer(line);
  return 0;
}
