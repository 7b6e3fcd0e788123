#include <stdlib.h>

#include "vk_kernels.h"
#include "vk_list.h"
#include "vk_work.h"

static void launch(odtc_gpu *gpu, VkCommandBuffer commands, const odtc_vk_launch *l) {
  const odtc_vk_kernel *k = l->kernel;
  uint32_t most = gpu->properties.limits.maxComputeWorkGroupCount[0];
  gpu->vk.CmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, l->pipeline);
  gpu->vk.CmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, k->layout, 0, 1, &l->set, 0, NULL);
  if (l->numbers)
    gpu->vk.CmdPushConstants(commands, k->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, k->numbers * ODTC_VK_NUMBER,
                             l->numbers);
  if (l->pipeline == k->pipeline) {
    gpu->vk.CmdDispatch(commands, l->groups[0], l->groups[1], l->groups[2]);
    return;
  }
  /* Groups that one launch cannot have are launched beside it: none reads what others write. */
  for (uint32_t first = 0, count; first < l->groups[0]; first += count) {
    count = l->groups[0] - first < most ? l->groups[0] - first : most;
    gpu->vk.CmdDispatchBase(commands, first, 0, 0, count, l->groups[1], l->groups[2]);
  }
}

static odtc_code need_times(odtc_gpu *gpu, odtc_gpu_list *l, odtc_problem *problem) {
  const VkQueryPoolCreateInfo info = {.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO,
                                      .queryType = VK_QUERY_TYPE_TIMESTAMP,
                                      .queryCount = 2 * (uint32_t)l->count + 1};
  if (!gpu->is_timed || l->times) return ODTC_OK;
  return odtc_vk_check(gpu, gpu->vk.CreateQueryPool(gpu->device, &info, NULL, &l->times), "timers", problem);
}

odtc_code odtc_vk_record(odtc_gpu *gpu, odtc_gpu_list *l, odtc_problem *problem) {
  const VkCommandBufferBeginInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
  VkCommandBuffer commands = l->commands;
  l->is_recorded = 0;
  if (need_times(gpu, l, problem) ||
      odtc_vk_check(gpu, gpu->vk.BeginCommandBuffer(commands, &info), "the commands of a step", problem))
    return problem->code;
  if (gpu->is_timed) gpu->vk.CmdResetQueryPool(commands, l->times, 0, 2 * (uint32_t)l->count + 1);
  odtc_vk_barrier(gpu, commands);
  for (uint32_t n = 0; n < l->count; ++n) {
    if (l->launches[n].waits) odtc_vk_barrier(gpu, commands);
    if (gpu->is_timed)
      gpu->vk.CmdWriteTimestamp(commands, VK_PIPELINE_STAGE_TOP_OF_PIPE_BIT, l->times, 2 * n);
    launch(gpu, commands, l->launches + n);
    if (gpu->is_timed)
      gpu->vk.CmdWriteTimestamp(commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, l->times, 2 * n + 1);
  }
  if (odtc_vk_check(gpu, gpu->vk.EndCommandBuffer(commands), "the commands of a step", problem))
    return problem->code;
  l->is_recorded = 1;
  l->is_timed = gpu->is_timed;
  return ODTC_OK;
}

odtc_code odtc_vk_times(odtc_gpu *gpu, const odtc_gpu_list *l, odtc_gpu_times *times, odtc_problem *problem) {
  if (!l->is_timed) return odtc_fail(problem, ODTC_UNSUPPORTED, "the launches of the last run were not timed");
  if (!l->count) return ODTC_OK;
  uint64_t *ticks = calloc(2 * l->count, sizeof *ticks);
  if (!ticks) return odtc_fail(problem, ODTC_NO_MEMORY, "there is no memory for %zu times", l->count);
  VkResult found = gpu->vk.GetQueryPoolResults(gpu->device, l->times, 0, 2 * (uint32_t)l->count,
                                               2 * l->count * sizeof *ticks, ticks, sizeof *ticks,
                                               VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT);
  uint64_t mask = gpu->timestamp_bits < 64 ? (UINT64_C(1) << gpu->timestamp_bits) - 1 : UINT64_MAX;
  double period = gpu->properties.limits.timestampPeriod;
  const uint64_t first = ticks[0] & mask;
  uint64_t last = 0;
  for (size_t n = 0; n < l->count; ++n) {
    /* A counter of few bits may begin anew: all are counted from the first. */
    uint64_t begin = (ticks[2 * n] - first) & mask, end = (ticks[2 * n + 1] - first) & mask;
    begin = begin > last ? begin : last;
    last = end > begin ? end : begin;
    times[n] = (odtc_gpu_times){(int64_t)((double)first * period) + (int64_t)((double)begin * period),
                                (int64_t)((double)first * period) + (int64_t)((double)last * period)};
  }
  free(ticks);
  return odtc_vk_check(gpu, found, "times of launches", problem);
}
