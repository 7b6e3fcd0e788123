#include "vk_matrices.h"

#include <stdlib.h>

enum { SIZE = 16 }; /* of matrices, by backends/gpu/matrix/grid.py */

static int is_ours(const VkCooperativeMatrixPropertiesKHR *each) {
  return each->MSize == SIZE && each->NSize == SIZE && each->KSize == SIZE &&
         each->AType == VK_COMPONENT_TYPE_FLOAT16_KHR && each->BType == VK_COMPONENT_TYPE_FLOAT16_KHR &&
         each->CType == VK_COMPONENT_TYPE_FLOAT32_KHR && each->ResultType == VK_COMPONENT_TYPE_FLOAT32_KHR &&
         each->scope == VK_SCOPE_SUBGROUP_KHR;
}

static void find_sizes(odtc_gpu *gpu) {
  gpu->subgroups = (VkPhysicalDeviceSubgroupSizeControlProperties){
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES};
  VkPhysicalDeviceProperties2 about = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
                                       .pNext = &gpu->subgroups};
  gpu->vk.GetPhysicalDeviceProperties2(gpu->physical, &about);
}

odtc_code odtc_vk_find_matrices(odtc_gpu *gpu, int *are_there, odtc_problem *problem) {
  PFN_vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR list =
      (PFN_vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR)gpu->find(
          gpu->instance, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR");
  uint32_t count = 0;
  *are_there = 0;
  if (!list || list(gpu->physical, &count, NULL)) return ODTC_OK;
  VkCooperativeMatrixPropertiesKHR *found = calloc(count + 1, sizeof *found);
  if (!found) return odtc_fail(problem, ODTC_NO_MEMORY, "there is no memory for a list of matrices");
  for (uint32_t n = 0; n < count; ++n)
    found[n].sType = (VkStructureType)VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR;
  if (list(gpu->physical, &count, found) >= 0)
    for (uint32_t n = 0; n < count; ++n) *are_there |= is_ours(found + n);
  free(found);
  find_sizes(gpu);
  return ODTC_OK;
}

odtc_code odtc_vk_need_subgroups(const odtc_gpu *gpu, const odtc_vk_kernel *kernel,
                                 VkPipelineShaderStageRequiredSubgroupSizeCreateInfo *required, odtc_problem *problem) {
  uint32_t least = gpu->subgroups.minSubgroupSize, most = gpu->subgroups.maxSubgroupSize;
  int may_choose = !!(gpu->subgroups.requiredSubgroupSizeStages & VK_SHADER_STAGE_COMPUTE_BIT);
  *required = (VkPipelineShaderStageRequiredSubgroupSizeCreateInfo){.requiredSubgroupSize = kernel->subgroup};
  if (kernel->subgroup < least || kernel->subgroup > most || (least < most && !may_choose))
    return odtc_fail(problem, ODTC_UNSUPPORTED,
                     "the kernel %s is for subgroups of %u items: %.100s has subgroups of %u to %u", kernel->name, kernel->subgroup,
                     gpu->properties.deviceName, least, most);
  if (least < most)
    required->sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO;
  return ODTC_OK;
}
