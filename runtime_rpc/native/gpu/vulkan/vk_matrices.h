/* Matrices that a subgroup multiplies as a whole: what a device has of them.

   VK_KHR_cooperative_matrix is newer than Debian's vulkan.h, with which the tests compare other declarations. */
#ifndef ODTC_VK_MATRICES_H
#define ODTC_VK_MATRICES_H

#include "vk_gpu.h"

enum {
  VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR = 1000506000,
  VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR = 1000506001,
  VK_COMPONENT_TYPE_FLOAT16_KHR = 0,
  VK_COMPONENT_TYPE_FLOAT32_KHR = 1,
  VK_SCOPE_SUBGROUP_KHR = 3,
};

typedef struct {
  VK_OUTPUT
  VkBool32 cooperativeMatrix, cooperativeMatrixRobustBufferAccess;
} VkPhysicalDeviceCooperativeMatrixFeaturesKHR;

typedef struct {
  VK_OUTPUT
  uint32_t MSize, NSize, KSize, AType, BType, CType, ResultType;
  VkBool32 saturatingAccumulation;
  uint32_t scope;
} VkCooperativeMatrixPropertiesKHR;

typedef VkResult (*PFN_vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR)(VkPhysicalDevice, uint32_t *,
                                                                          VkCooperativeMatrixPropertiesKHR *);

/* Whether subgroups of the device multiply matrices of 16 x 16 float16 and add up float32: it lists all that they do.
   Notes the sizes that its subgroups may have. */
odtc_code odtc_vk_find_matrices(odtc_gpu *gpu, int *are_there, odtc_problem *problem);
/* Whether a kernel for subgroups of so many items can have them; `required` is filled in where the device has to be
   told, and its sType is 0 where it has no other. */
odtc_code odtc_vk_need_subgroups(const odtc_gpu *gpu, const odtc_vk_kernel *kernel,
                                 VkPipelineShaderStageRequiredSubgroupSizeCreateInfo *required, odtc_problem *problem);

#endif
