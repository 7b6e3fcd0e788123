#include "vk_gpu.h"

static const struct {
  VkResult result;
  odtc_code code;
  const char *text;
} RESULTS[] = {
    {VK_ERROR_OUT_OF_HOST_MEMORY, ODTC_NO_MEMORY, "out of host memory"},
    {VK_ERROR_OUT_OF_DEVICE_MEMORY, ODTC_NO_MEMORY, "out of device memory"},
    {VK_ERROR_MEMORY_MAP_FAILED, ODTC_NO_MEMORY, "the driver cannot map memory"},
    {VK_ERROR_TOO_MANY_OBJECTS, ODTC_NO_MEMORY, "out of device resources"},
    {VK_ERROR_INITIALIZATION_FAILED, ODTC_DEVICE, "the driver failed"},
    {VK_ERROR_DEVICE_LOST, ODTC_DEVICE, "the driver gave the device up, or it is gone"},
    {VK_ERROR_EXTENSION_NOT_PRESENT, ODTC_DEVICE, "the device lacks an extension"},
    {VK_ERROR_FEATURE_NOT_PRESENT, ODTC_DEVICE, "the device lacks a feature"},
    {VK_ERROR_INCOMPATIBLE_DRIVER, ODTC_DEVICE, "the driver is too old"},
};

odtc_code odtc_vk_check(odtc_gpu *gpu, VkResult result, const char *what, odtc_problem *problem) {
  if (result == VK_SUCCESS) return ODTC_OK;
  if (result == VK_ERROR_DEVICE_LOST) gpu->is_lost = 1;
  for (size_t n = 0; n < sizeof RESULTS / sizeof *RESULTS; ++n)
    if (RESULTS[n].result == result)
      return odtc_fail(problem, RESULTS[n].code, "%.200s: %s (Vulkan error %d)", what, RESULTS[n].text,
                       (int)result);
  return odtc_fail(problem, ODTC_DEVICE, "%.200s: Vulkan error %d", what, (int)result);
}

odtc_code odtc_vk_check_there(odtc_gpu *gpu, odtc_problem *problem) {
  return gpu->is_lost ? odtc_vk_check(gpu, VK_ERROR_DEVICE_LOST, gpu->properties.deviceName, problem)
                      : ODTC_OK;
}
