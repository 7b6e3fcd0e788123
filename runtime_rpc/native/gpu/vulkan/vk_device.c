#include <stdlib.h>
#include <string.h>

#include "vk_gpu.h"
#include "vk_matrices.h"

/* What a kernel's SPIR-V may ask of a device, by the number of the capability. */
static const struct {
  uint32_t number;
  const char *name;
} CAPABILITIES[] = {
    {1, "shaders"},
    {9, "arithmetic with float16"},
    {10, "arithmetic with float64"},
    {11, "arithmetic with int64"},
    {22, "arithmetic with int16"},
    {39, "arithmetic with int8"},
    {46, "buffers that are read as images"},
    {61, "numbers of subgroups"},
    {4433, "buffers of 16-bit numbers"},
    {4448, "buffers of 8-bit numbers"},
    {5345, "Vulkan's memory model"},
    {6022, "matrices of 16 x 16 float16 that subgroups multiply"},
};
enum { CAPABILITY_COUNT = sizeof CAPABILITIES / sizeof *CAPABILITIES };
/* Extensions that are taken where a device has them. */
enum { HALVES, BYTES, STATISTICS, MODEL, SUBGROUPS, MATRICES, EXTENSION_COUNT };
static const char *const EXTENSIONS[EXTENSION_COUNT] = {
    "VK_KHR_shader_float16_int8", "VK_KHR_8bit_storage",          "VK_KHR_pipeline_executable_properties",
    "VK_KHR_vulkan_memory_model", "VK_EXT_subgroup_size_control", "VK_KHR_cooperative_matrix",
};
enum { MOST_DEVICES = 64, MOST_FAMILIES = 32 };

odtc_code odtc_vk_check_capability(const odtc_gpu *gpu, uint32_t capability, const char *kernel,
                                   odtc_problem *problem) {
  for (size_t n = 0; n < CAPABILITY_COUNT; ++n) {
    if (CAPABILITIES[n].number != capability) continue;
    if (gpu->capabilities >> n & 1) return ODTC_OK;
    return odtc_fail(problem, ODTC_UNSUPPORTED, "the kernel %.100s needs %s, which %.100s lacks", kernel,
                     CAPABILITIES[n].name, gpu->properties.deviceName);
  }
  return odtc_fail(problem, ODTC_UNSUPPORTED,
                   "the kernel %.100s needs the capability %u of SPIR-V, which this version does not know",
                   kernel, capability);
}

static int is_gpu(VkPhysicalDeviceType type) {
  return type == VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU || type == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU ||
         type == VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU;
}

/* The families of queues of a device; returns how many there are. */
static uint32_t families(const odtc_gpu *gpu, VkPhysicalDevice device,
                         VkQueueFamilyProperties found[MOST_FAMILIES]) {
  uint32_t count = MOST_FAMILIES;
  gpu->vk.GetPhysicalDeviceQueueFamilyProperties(device, &count, found);
  return count;
}

/* The first family for kernels; MOST_FAMILIES if there is none. */
static uint32_t computing(const VkQueueFamilyProperties *found, uint32_t count) {
  for (uint32_t n = 0; n < count; ++n)
    if (found[n].queueFlags & VK_QUEUE_COMPUTE_BIT) return n;
  return MOST_FAMILIES;
}

/* The queue by which batches travel while a step runs: one that does nothing but copy, or a second one for
   kernels; else there is but one. */
static void choose_queues(odtc_gpu *gpu) {
  VkQueueFamilyProperties found[MOST_FAMILIES];
  uint32_t count = families(gpu, gpu->physical, found), first = computing(found, count);
  gpu->compute.family = gpu->transfer.family = first;
  gpu->timestamp_bits = found[first].timestampValidBits;
  gpu->transfer.number = found[first].queueCount > 1;
  for (uint32_t n = 0; n < count; ++n) {
    if ((found[n].queueFlags & 7) != VK_QUEUE_TRANSFER_BIT) continue; /* 7: graphics, compute, transfer */
    gpu->transfer = (odtc_vk_line){.family = n};
    return;
  }
}

static odtc_code choose_device(odtc_gpu *gpu, int number, odtc_problem *problem) {
  VkPhysicalDevice found[MOST_DEVICES];
  VkQueueFamilyProperties queues[MOST_FAMILIES];
  uint32_t count = MOST_DEVICES;
  int seen = 0;
  VkResult listed = gpu->vk.EnumeratePhysicalDevices(gpu->instance, &count, found);
  if (listed != VK_INCOMPLETE && odtc_vk_check(gpu, listed, "the devices of Vulkan", problem))
    return problem->code;
  for (int gpus = 1; gpus >= 0; --gpus) {
    for (uint32_t n = 0; n < count; ++n) {
      gpu->vk.GetPhysicalDeviceProperties(found[n], &gpu->properties);
      int is_old = gpu->properties.apiVersion < VK_API_VERSION_1_1;
      if (is_old || is_gpu(gpu->properties.deviceType) != gpus) continue;
      if (computing(queues, families(gpu, found[n], queues)) == MOST_FAMILIES || seen++ != number) continue;
      gpu->physical = found[n];
      return ODTC_OK;
    }
  }
  return odtc_fail(problem, ODTC_DEVICE, "there is no Vulkan device %d: this machine has %d", number, seen);
}

static odtc_code find_extensions(odtc_gpu *gpu, int has[EXTENSION_COUNT], odtc_problem *problem) {
  uint32_t count = 0;
  gpu->vk.EnumerateDeviceExtensionProperties(gpu->physical, NULL, &count, NULL);
  VkExtensionProperties *found = calloc(count + 1, sizeof *found);
  if (!found) return odtc_fail(problem, ODTC_NO_MEMORY, "there is no memory for a list of extensions");
  gpu->vk.EnumerateDeviceExtensionProperties(gpu->physical, NULL, &count, found);
  for (int each = 0; each < EXTENSION_COUNT; ++each) {
    has[each] = 0;
    for (uint32_t n = 0; n < count; ++n) has[each] |= !strcmp(found[n].extensionName, EXTENSIONS[each]);
  }
  free(found);
  return ODTC_OK;
}

/* Whether kernels may ask for the number of an item in its subgroup. */
static int has_subgroups(const odtc_gpu *gpu) {
  VkPhysicalDeviceSubgroupProperties found = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES};
  VkPhysicalDeviceProperties2 about = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &found};
  gpu->vk.GetPhysicalDeviceProperties2(gpu->physical, &about);
  return found.supportedStages & VK_SHADER_STAGE_COMPUTE_BIT && found.supportedOperations & VK_SUBGROUP_FEATURE_BASIC_BIT;
}

/* Puts a structure in front of others, where the device knows it; returns the first of them. */
static void *in_front(int has, void *structure, void *others) {
  typedef struct { VK_OUTPUT } any;
  if (!has) return others;
  ((any *)structure)->pNext = others;
  return structure;
}

/* Makes the device, with all that kernels may ask for and it has. */
static odtc_code make_device(odtc_gpu *gpu, odtc_problem *problem) {
  int knows[EXTENSION_COUNT], has_matrices = 0;
  if (find_extensions(gpu, knows, problem)) return problem->code;
  int may_multiply = knows[MODEL] && knows[SUBGROUPS] && knows[MATRICES];
  if (may_multiply && odtc_vk_find_matrices(gpu, &has_matrices, problem)) return problem->code;
  VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR statistics = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR};
  VkPhysicalDevice8BitStorageFeatures bytes = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_8BIT_STORAGE_FEATURES};
  VkPhysicalDeviceShaderFloat16Int8Features small = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES};
  VkPhysicalDevice16BitStorageFeatures halves = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES};
  VkPhysicalDeviceVulkanMemoryModelFeatures model = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES};
  VkPhysicalDeviceSubgroupSizeControlFeatures subgroups = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES};
  VkPhysicalDeviceCooperativeMatrixFeaturesKHR matrices = {
      .sType = (VkStructureType)VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR};
  void *all = in_front(knows[STATISTICS], &statistics, NULL);
  all = in_front(knows[BYTES], &bytes, all);
  all = in_front(knows[HALVES], &small, all);
  all = in_front(knows[MODEL], &model, all);
  all = in_front(knows[SUBGROUPS], &subgroups, all);
  all = in_front(knows[MATRICES], &matrices, all);
  VkPhysicalDeviceFeatures2 features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
                                        .pNext = in_front(1, &halves, all)};
  gpu->vk.GetPhysicalDeviceFeatures2(gpu->physical, &features);
  /* Each access would be checked: kernels stay within their buffers. */
  features.features.robustBufferAccess = 0;
  matrices.cooperativeMatrixRobustBufferAccess = 0;
  const VkBool32 has[CAPABILITY_COUNT] = {
      1,
      small.shaderFloat16,
      features.features.shaderFloat64,
      features.features.shaderInt64,
      features.features.shaderInt16,
      small.shaderInt8,
      1,
      has_subgroups(gpu),
      halves.storageBuffer16BitAccess,
      bytes.storageBuffer8BitAccess,
      model.vulkanMemoryModel,
      has_matrices && matrices.cooperativeMatrix && subgroups.computeFullSubgroups,
  };
  for (size_t n = 0; n < CAPABILITY_COUNT; ++n) gpu->capabilities |= (uint32_t)!!has[n] << n;
  gpu->has_statistics = !!statistics.pipelineExecutableInfo;
  const char *extensions[EXTENSION_COUNT];
  uint32_t extension_count = 0;
  for (int each = 0; each < EXTENSION_COUNT; ++each)
    if (knows[each]) extensions[extension_count++] = EXTENSIONS[each];
  const float priorities[2] = {1, 1};
  int apart = gpu->transfer.family != gpu->compute.family;
  const VkDeviceQueueCreateInfo queues[2] = {
      {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
       .queueFamilyIndex = gpu->compute.family,
       .queueCount = apart ? 1 : gpu->transfer.number + 1,
       .pQueuePriorities = priorities},
      {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
       .queueFamilyIndex = gpu->transfer.family,
       .queueCount = 1,
       .pQueuePriorities = priorities}};
  const VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                                   .pNext = &features,
                                   .queueCreateInfoCount = apart ? 2 : 1,
                                   .pQueueCreateInfos = queues,
                                   .enabledExtensionCount = extension_count,
                                   .ppEnabledExtensionNames = extensions};
  return odtc_vk_check(gpu, gpu->vk.CreateDevice(gpu->physical, &info, NULL, &gpu->device),
                       gpu->properties.deviceName, problem);
}

static odtc_code open_line(odtc_gpu *gpu, odtc_vk_line *line, odtc_problem *problem) {
  const VkCommandPoolCreateInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                        .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
                                        .queueFamilyIndex = line->family};
  gpu->vk.GetDeviceQueue(gpu->device, line->family, line->number, &line->queue);
  return odtc_vk_check(gpu, gpu->vk.CreateCommandPool(gpu->device, &info, NULL, &line->commands),
                       "a command pool", problem);
}

static odtc_code find_functions(odtc_gpu *gpu, odtc_problem *problem) {
#define FIND(result, name, arguments) \
  gpu->vk.name = (result(*) arguments)gpu->vk.GetDeviceProcAddr(gpu->device, "vk" #name); \
  if (!gpu->vk.name) \
    odtc_fail(problem, ODTC_DEVICE, "the driver of %.100s has no vk" #name, gpu->properties.deviceName);
  VK_OF_DEVICE(FIND)
  if (gpu->has_statistics) {
    VK_OF_STATISTICS(FIND)
  }
#undef FIND
  if (problem->code) gpu->device = NULL; /* which nothing can be done with, not even end it */
  return problem->code;
}

odtc_code odtc_vk_open_device(odtc_gpu *gpu, int number, odtc_problem *problem) {
  if (choose_device(gpu, number, problem)) return problem->code;
  choose_queues(gpu);
  gpu->vk.GetPhysicalDeviceMemoryProperties(gpu->physical, &gpu->memory);
  if (make_device(gpu, problem)) return problem->code;
  if (find_functions(gpu, problem)) return problem->code;
  return open_line(gpu, &gpu->compute, problem) ? problem->code
                                                : open_line(gpu, &gpu->transfer, problem);
}
