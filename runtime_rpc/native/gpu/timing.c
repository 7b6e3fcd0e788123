/* Times of evaluations by the timers of the device. */
#include "on_gpu.h"

static odtc_code time_runs(odtc_trainer *t, const odtc_function *of, size_t runs, int64_t *nanoseconds) {
  struct odtc_on_gpu *gpu = t->gpu;
  const uint32_t *first = gpu->launches.first + of->first;
  const uint32_t count = first[of->calls] - first[0];
  odtc_gpu_list *list = odtc_list_of(t, of, 0, 0);
  if (!list || gpu->api->set_timed(gpu->device, 1, &t->problem)) return t->problem.code;
  for (size_t n = 0; n < runs; ++n) {
    if (gpu->api->run(gpu->device, list, &t->problem) || gpu->api->wait(gpu->device, list, &t->problem) ||
        gpu->api->times(gpu->device, list, gpu->times, &t->problem))
      return t->problem.code;
    nanoseconds[n] = count ? gpu->times[count - 1].end - gpu->times[0].begin : 0;
  }
  return ODTC_OK;
}

odtc_code odtc_time_evaluation(odtc_trainer *t, const char *output, size_t runs, int64_t *nanoseconds) {
  odtc_problem nobody = {0};
  if (odtc_check_given(t, nanoseconds, "memory for times")) return t->problem.code;
  const odtc_function *of = odtc_ready_evaluation(t, output);
  if (!of) return t->problem.code;
  if (!t->gpu) return odtc_fail(&t->problem, ODTC_USAGE, "a CPU has no timers of its own");
  if (odtc_need_arena(t, of)) return t->problem.code;
  odtc_code code = time_runs(t, of, runs, nanoseconds);
  t->gpu->api->set_timed(t->gpu->device, t->clock.is_on, &nobody);
  return code ? code : odtc_leave_arena(t);
}
