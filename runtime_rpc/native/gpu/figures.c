#include <math.h>
#include <stdio.h>

#include "gpu.h"
#include "text.h"

void odtc_add_figure(odtc_gpu_figures *figures, const char *name, double value) {
  /* NVIDIA's driver for Vulkan (580) says of kernels that they have 2^36 bytes of local memory. */
  if (figures->count == ODTC_GPU_MOST_FIGURES || !isfinite(value) || value > UINT32_MAX) return;
  struct odtc_gpu_figure *each = figures->each + figures->count++;
  snprintf(each->name, sizeof each->name, "%s", name);
  odtc_make_utf8(each->name); /* a name that was cut */
  each->value = value;
}

void odtc_add_images(odtc_gpu_figures *figures, uint64_t images) {
  int count = 0;
  for (; images; images &= images - 1) ++count;
  if (count) odtc_add_figure(figures, "images", count);
}
