#include <stdlib.h>
#include <string.h>

#include "vk_kernels.h"

/* A value in the bytes of its format. */
static double value_of(const VkPipelineExecutableStatisticKHR *said) {
  int64_t whole;
  double real;
  memcpy(&whole, &said->value, sizeof whole);
  memcpy(&real, &said->value, sizeof real);
  switch (said->format) {
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_BOOL32_KHR:
      return (uint32_t)said->value != 0;
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_INT64_KHR:
      return (double)whole;
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_UINT64_KHR:
      return (double)said->value;
    default:
      return real;
  }
}

/* Of the first part that a driver has made of a pipeline: of one with a single stage there are no others. */
static odtc_code add_statistics(odtc_gpu *gpu, VkPipeline pipeline, const char *name, odtc_gpu_figures *figures,
                                odtc_problem *problem) {
  const VkPipelineInfoKHR info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_INFO_KHR, .pipeline = pipeline};
  const VkPipelineExecutableInfoKHR first = {.sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INFO_KHR,
                                             .pipeline = pipeline};
  VkPipelineExecutablePropertiesKHR part = {.sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_PROPERTIES_KHR};
  uint32_t parts = 1, count = 0;
  VkResult result = gpu->vk.GetPipelineExecutablePropertiesKHR(gpu->device, &info, &parts, &part);
  if (result != VK_INCOMPLETE && odtc_vk_check(gpu, result, name, problem)) return problem->code;
  if (!parts) return ODTC_OK;
  if (part.subgroupSize) odtc_add_figure(figures, "items at once", part.subgroupSize);
  if (odtc_vk_check(gpu, gpu->vk.GetPipelineExecutableStatisticsKHR(gpu->device, &first, &count, NULL), name, problem))
    return problem->code;
  VkPipelineExecutableStatisticKHR *said = calloc(count + 1, sizeof *said);
  if (!said) return odtc_fail(problem, ODTC_NO_MEMORY, "there is no memory for statistics of %s", name);
  for (uint32_t n = 0; n < count; ++n) said[n].sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_STATISTIC_KHR;
  result = gpu->vk.GetPipelineExecutableStatisticsKHR(gpu->device, &first, &count, said);
  if (result == VK_INCOMPLETE || !odtc_vk_check(gpu, result, name, problem))
    for (uint32_t n = 0; n < count; ++n) {
      said[n].name[sizeof said[n].name - 1] = '\0';
      odtc_add_figure(figures, said[n].name, value_of(said + n));
    }
  free(said);
  return problem->code;
}

odtc_code odtc_vk_describe(odtc_gpu *gpu, uint32_t number, const odtc_gpu_kernel *from, odtc_gpu_figures *figures,
                           odtc_problem *problem) {
  odtc_vk_kernel again = gpu->kernels[number];
  VkPipeline pipeline = NULL;
  if (odtc_vk_check_there(gpu, problem)) return problem->code;
  odtc_add_figure(figures, "shared bytes", (double)again.shared_bytes);
  odtc_add_images(figures, again.images);
  if (!gpu->has_statistics) return ODTC_OK;
  /* Compiled again: a driver keeps statistics where it is asked to before. */
  again.shader = NULL;
  if (!odtc_vk_make_shader(gpu, from, &again, problem) &&
      !odtc_vk_make_pipeline(gpu, &again, NULL, VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR, &pipeline, problem))
    add_statistics(gpu, pipeline, again.name, figures, problem);
  gpu->vk.DestroyPipeline(gpu->device, pipeline, NULL);
  gpu->vk.DestroyShaderModule(gpu->device, again.shader, NULL);
  return problem->code;
}
