/* What kernels take of the device, for people. */
#include <stdlib.h>

#include "on_gpu.h"

static void put_sizes(odtc_text *text, const char *name, const uint32_t sizes[3]) {
  odtc_text_put(text, ", \"%s\": [%u, %u, %u]", name, sizes[0], sizes[1], sizes[2]);
}

static odtc_code put_launch(odtc_trainer *t, const odtc_noted_launch *launch, odtc_text *text) {
  const struct odtc_on_gpu *gpu = t->gpu;
  const odtc_gpu_kernel *kernel = gpu->module.kernels + launch->kernel;
  odtc_gpu_figures figures = {0};
  if (gpu->api->describe(gpu->device, launch->kernel, kernel, &figures, &t->problem)) return t->problem.code;
  odtc_text_put(text, "{\"name\": ");
  odtc_text_put_string(text, kernel->name);
  put_sizes(text, "groups", launch->groups);
  put_sizes(text, "items", launch->items);
  odtc_text_put(text, ", \"figures\": {");
  for (size_t n = 0; n < figures.count; ++n) {
    odtc_text_put(text, n ? ", " : "");
    odtc_text_put_string(text, figures.each[n].name);
    odtc_text_put(text, ": %.17g", figures.each[n].value);
  }
  odtc_text_put(text, "}}");
  return ODTC_OK;
}

/* The launches of a call, which are those of each call of its kernel. */
static odtc_code put_call(odtc_trainer *t, size_t call, odtc_text *text) {
  const struct odtc_on_gpu *gpu = t->gpu;
  const uint32_t *first = gpu->launches.first + call;
  odtc_text_put_string(text, t->program.text + t->program.kernels[t->program.calls[call].kernel]);
  odtc_text_put(text, ": [");
  for (uint32_t n = first[0]; n < first[1]; ++n) {
    odtc_text_put(text, n > first[0] ? ", " : "");
    if (put_launch(t, gpu->launches.launches + n, text)) return t->problem.code;
  }
  odtc_text_put(text, "]");
  return ODTC_OK;
}

static odtc_code put_kernels(odtc_trainer *t, uint8_t *is_told, odtc_text *text) {
  int count = 0;
  odtc_text_put(text, "{");
  for (size_t call = 0; call < t->program.call_count; ++call) {
    uint8_t *told = is_told + t->program.calls[call].kernel;
    if (*told) continue;
    *told = 1;
    odtc_text_put(text, count++ ? ", " : "");
    if (put_call(t, call, text)) return t->problem.code;
  }
  odtc_text_put(text, "}");
  return ODTC_OK;
}

odtc_code odtc_describe_kernels(odtc_trainer *t, const char **json) {
  if (odtc_check_given(t, json, "a place for a text")) return t->problem.code;
  if (!t->gpu) return odtc_fail(&t->problem, ODTC_USAGE, "a CPU's driver says nothing of kernels");
  odtc_text *text = &t->gpu->described;
  odtc_text_end(text);
  uint8_t *is_told = calloc(t->program.kernel_count + 1, 1);
  odtc_code code = is_told ? put_kernels(t, is_told, text) : ODTC_NO_MEMORY;
  free(is_told);
  if (!is_told || (!code && text->failed))
    return odtc_fail(&t->problem, ODTC_NO_MEMORY, "there is no memory for what is said of kernels");
  *json = text->at;
  return code;
}
