/* The threads of kernels that a client calls itself; a trainer has its own. */
#include <stdlib.h>

#include "core_speeds.h"
#include "functions.h"

int odtc_read_cores(odtc_session *s, const char *text, int cores[ODTC_MOST_THREADS]) {
  const char *at = text;
  int count = 0;
  for (char *end; *at && count < ODTC_MOST_THREADS; at = *end == ',' ? end + 1 : end, ++count) {
    long core = strtol(at, &end, 10);
    if (end == at || (*end && *end != ',') || core < 0 || core >= MOST_CORES) break;
    cores[count] = (int)core;
  }
  if (!*at && count) return count;
  odtc_refuse(s, "%.100s are not numbers of cores", text);
  return 0;
}

/* A thread for each core of a text such as 4,5; the first one is this process's, which is bound to it if
   `bind` says so, and free to run anywhere else. */
static void use_cores(odtc_session *s, const odtc_value *v, odtc_result *result) {
  (void)result;
  int cores[ODTC_MOST_THREADS], count = odtc_read_cores(s, v[0].bytes, cores);
  odtc_problem problem;
  odtc_pool *pool;
  if (!count) return;
  /* Threads are born where the one is that starts them. */
  odtc_use_all_cores();
  if (odtc_pool_make(count, cores, NULL, 0, &pool, &problem)) {
    odtc_refuse(s, "%s", problem.text);
    return;
  }
  odtc_pool_end(s->pool);
  s->pool = pool;
  if (v[1].number && odtc_use_core(cores[0]))
    odtc_refuse(s, "no thread may run on core %d", cores[0]);
}

const odtc_named_function ODTC_THREAD_FUNCTIONS[] = {
    {"odtc.use_cores", "si", use_cores},
    {NULL, NULL, NULL},
};
