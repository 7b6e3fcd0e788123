// In front of Vulkan's library, under its name: another device than lavapipe, or one that fails.
//
//   DISCRETE   memory of its own that the host does not see, beside some that it does; 2: which is its own, too
//   LOST_AFTER so many submits, the device is lost
//   NO_MEMORY  for buffers of so many bytes or more, in memory that the host does not see
//   QUEUES     2: of what is one queue, as if there were two
//   PLAIN      a device with no feature beyond what each has
//   STATISTICS of pipelines: a subgroup of 64 items, 40 registers, half of all items at once; and more
//              local memory than a device has, as one driver says
//   MATRICES   of 16 x 16 float16, which subgroups of so many items multiply; TERMS in place of the second 16
//   TEXELS     that an image of a buffer may have, SAMPLED such images of a kernel
//   RECORDED   what is recorded goes to stderr: a "d" for each launch, a "b" for each barrier
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vulkan/vulkan.h>

static PFN_vkGetInstanceProcAddr real_instance;
static PFN_vkGetDeviceProcAddr real_device;
static VkInstance made;

// VK_KHR_cooperative_matrix, as far as it is needed: Debian's header is older.
enum { MATRIX_FEATURES = 1000506000 };
static const char MATRIX_EXTENSION[] = "VK_KHR_cooperative_matrix";

typedef struct {
  VkStructureType sType;
  void* pNext;
  uint32_t m, n, k, types[4];
  VkBool32 saturates;
  uint32_t scope;
} matrix_properties;

#define REAL(name) ((PFN_##name)real_instance(made, #name))
#define REAL_DEVICE(name) ((PFN_##name)real_device(device, #name))

static long number(const char* name) {
  const char* value = getenv(name);
  return value ? atol(value) : 0;
}

static VkResult vk_CreateInstance(const VkInstanceCreateInfo* info, const VkAllocationCallbacks* by,
                                  VkInstance* instance) {
  VkResult code = ((PFN_vkCreateInstance)real_instance(NULL, "vkCreateInstance"))(info, by, instance);
  made = *instance;
  return code;
}

static void vk_GetPhysicalDeviceProperties(VkPhysicalDevice device, VkPhysicalDeviceProperties* found) {
  REAL(vkGetPhysicalDeviceProperties)(device, found);
  if (number("DISCRETE")) found->deviceType = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
  if (number("TEXELS")) found->limits.maxTexelBufferElements = (uint32_t)number("TEXELS");
  if (getenv("SAMPLED")) found->limits.maxPerStageDescriptorSampledImages = (uint32_t)number("SAMPLED");
}

static void vk_GetPhysicalDeviceMemoryProperties(VkPhysicalDevice device,
                                                 VkPhysicalDeviceMemoryProperties* found) {
  REAL(vkGetPhysicalDeviceMemoryProperties)(device, found);
  if (!number("DISCRETE")) return;
  found->memoryTypeCount = 2;
  found->memoryTypes[0].propertyFlags = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
  found->memoryTypes[1].heapIndex = 0;
  found->memoryTypes[1].propertyFlags =
      VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  if (number("DISCRETE") == 2) found->memoryTypes[1].propertyFlags |= VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
}

static void vk_GetPhysicalDeviceQueueFamilyProperties(VkPhysicalDevice device, uint32_t* count,
                                                      VkQueueFamilyProperties* found) {
  REAL(vkGetPhysicalDeviceQueueFamilyProperties)(device, count, found);
  for (uint32_t n = 0; found && n < *count; ++n)
    if (number("QUEUES")) found[n].queueCount = (uint32_t)number("QUEUES");
}

static void set_statistics(const void* chain, VkBool32 are_there) {
  VkBaseOutStructure* each = (VkBaseOutStructure*)chain;
  for (; each; each = each->pNext)
    if (each->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR)
      ((VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR*)each)->pipelineExecutableInfo = are_there;
}

static void vk_GetPhysicalDeviceFeatures2(VkPhysicalDevice device, VkPhysicalDeviceFeatures2* found) {
  if (!number("PLAIN")) REAL(vkGetPhysicalDeviceFeatures2)(device, found);
  if (number("STATISTICS")) set_statistics(found, VK_TRUE);
  VkBaseOutStructure* each = (VkBaseOutStructure*)found;
  for (; number("MATRICES") && each; each = each->pNext)
    if (each->sType == (VkStructureType)MATRIX_FEATURES) *(VkBool32*)(each + 1) = VK_TRUE;
}

static void vk_GetPhysicalDeviceProperties2(VkPhysicalDevice device, VkPhysicalDeviceProperties2* found) {
  REAL(vkGetPhysicalDeviceProperties2)(device, found);
  VkBaseOutStructure* each = (VkBaseOutStructure*)found;
  for (; number("MATRICES") && each; each = each->pNext) {
    if (each->sType != VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES) continue;
    VkPhysicalDeviceSubgroupSizeControlProperties* sizes = (VkPhysicalDeviceSubgroupSizeControlProperties*)each;
    sizes->minSubgroupSize = sizes->maxSubgroupSize = (uint32_t)number("MATRICES");
  }
}

static VkResult vk_GetPhysicalDeviceCooperativeMatrixPropertiesKHR(VkPhysicalDevice device, uint32_t* count,
                                                                   matrix_properties* found) {
  (void)device;
  *count = 1;
  if (!found) return VK_SUCCESS;
  found->m = found->n = 16;
  found->k = number("TERMS") ? (uint32_t)number("TERMS") : 16;
  found->types[0] = found->types[1] = 0;
  found->types[2] = found->types[3] = 1;
  found->scope = 3;
  return VK_SUCCESS;
}

static VkResult vk_EnumerateDeviceExtensionProperties(VkPhysicalDevice device, const char* layer, uint32_t* count,
                                                      VkExtensionProperties* found) {
  static const char* const MORE[][2] = {{"STATISTICS", VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME},
                                        {"MATRICES", MATRIX_EXTENSION}};
  VkResult code = REAL(vkEnumerateDeviceExtensionProperties)(device, layer, count, found);
  for (int n = 0; n < 2 && !code; ++n) {
    if (!number(MORE[n][0])) continue;
    if (found) strcpy(found[*count].extensionName, MORE[n][1]);
    ++*count;
  }
  return code;
}

static VkResult vk_GetPipelineExecutablePropertiesKHR(VkDevice device, const VkPipelineInfoKHR* info, uint32_t* count,
                                                      VkPipelineExecutablePropertiesKHR* found) {
  (void)device;
  if (!info->pipeline) return VK_ERROR_UNKNOWN;
  if (found && *count) found->subgroupSize = 64;
  *count = 1;
  return VK_SUCCESS;
}

static VkResult vk_GetPipelineExecutableStatisticsKHR(VkDevice device, const VkPipelineExecutableInfoKHR* info,
                                                      uint32_t* count, VkPipelineExecutableStatisticKHR* found) {
  static const struct {
    const char* name;
    VkPipelineExecutableStatisticFormatKHR format;
    VkPipelineExecutableStatisticValueKHR value;
  } SAID[] = {{"Register Count", VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_UINT64_KHR, {.u64 = 40}},
              {"Spilled", VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_INT64_KHR, {.i64 = -1}},
              {"Occupancy", VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_FLOAT64_KHR, {.f64 = 0.5}},
              {"Local Memory Size", VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_UINT64_KHR, {.u64 = (uint64_t)1 << 36}},
              {"Is Cached", VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_BOOL32_KHR, {.b32 = VK_TRUE}}};
  (void)device, (void)info;
  for (uint32_t n = 0; found && n < 5 && n < *count; ++n) {
    strcpy(found[n].name, SAID[n].name);
    found[n].format = SAID[n].format;
    found[n].value = SAID[n].value;
  }
  *count = 5;
  return VK_SUCCESS;
}

static VkResult vk_CreateDevice(VkPhysicalDevice device, const VkDeviceCreateInfo* info,
                                const VkAllocationCallbacks* by, VkDevice* found) {
  VkDeviceCreateInfo other = *info;
  VkDeviceQueueCreateInfo queues = *info->pQueueCreateInfos;
  queues.queueCount = 1;
  other.pQueueCreateInfos = &queues;
  const char* has[16];
  other.ppEnabledExtensionNames = has;
  other.enabledExtensionCount = 0;
  for (uint32_t n = 0; n < info->enabledExtensionCount; ++n) {
    const char* name = info->ppEnabledExtensionNames[n];
    if (number("STATISTICS") && !strcmp(name, VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME)) continue;
    if (number("MATRICES") && !strcmp(name, MATRIX_EXTENSION)) continue;
    has[other.enabledExtensionCount++] = name;
  }
  if (number("STATISTICS")) set_statistics(info->pNext, VK_FALSE);
  return REAL(vkCreateDevice)(device, &other, by, found);
}

static void vk_GetDeviceQueue(VkDevice device, uint32_t family, uint32_t index, VkQueue* queue) {
  (void)index;
  REAL_DEVICE(vkGetDeviceQueue)(device, family, 0, queue);
}

static void vk_GetBufferMemoryRequirements(VkDevice device, VkBuffer buffer, VkMemoryRequirements* needs) {
  REAL_DEVICE(vkGetBufferMemoryRequirements)(device, buffer, needs);
  if (number("DISCRETE")) needs->memoryTypeBits = 3;
}

static VkResult vk_AllocateMemory(VkDevice device, const VkMemoryAllocateInfo* info,
                                  const VkAllocationCallbacks* by, VkDeviceMemory* memory) {
  VkMemoryAllocateInfo other = *info;
  long most = number("NO_MEMORY");
  if (most && info->memoryTypeIndex == 0 && info->allocationSize >= (VkDeviceSize)most)
    return VK_ERROR_OUT_OF_DEVICE_MEMORY;
  other.memoryTypeIndex = 0;
  return REAL_DEVICE(vkAllocateMemory)(device, &other, by, memory);
}

static VkResult vk_QueueSubmit(VkQueue queue, uint32_t count, const VkSubmitInfo* infos, VkFence fence) {
  static long submits = 0;
  long most = number("LOST_AFTER");
  if (most && ++submits > most) return VK_ERROR_DEVICE_LOST;
  return ((PFN_vkQueueSubmit)real_instance(made, "vkQueueSubmit"))(queue, count, infos, fence);
}

static void vk_CmdDispatch(VkCommandBuffer commands, uint32_t x, uint32_t y, uint32_t z) {
  if (number("RECORDED")) fputc('d', stderr);
  ((PFN_vkCmdDispatch)real_instance(made, "vkCmdDispatch"))(commands, x, y, z);
}

static void vk_CmdPipelineBarrier(VkCommandBuffer commands, VkPipelineStageFlags before, VkPipelineStageFlags after,
                                  VkDependencyFlags flags, uint32_t count, const VkMemoryBarrier* all,
                                  uint32_t buffers, const VkBufferMemoryBarrier* of_buffers, uint32_t images,
                                  const VkImageMemoryBarrier* of_images) {
  if (number("RECORDED")) fputc('b', stderr);
  ((PFN_vkCmdPipelineBarrier)real_instance(made, "vkCmdPipelineBarrier"))(
      commands, before, after, flags, count, all, buffers, of_buffers, images, of_images);
}

static PFN_vkVoidFunction vk_GetDeviceProcAddr(VkDevice device, const char* name);

static const struct {
  const char* name;
  PFN_vkVoidFunction code;
} OWN[] = {
#define ROW(name) {"vk" #name, (PFN_vkVoidFunction)vk_##name},
    ROW(CreateInstance) ROW(GetPhysicalDeviceProperties) ROW(GetPhysicalDeviceMemoryProperties)
    ROW(GetPhysicalDeviceQueueFamilyProperties) ROW(GetBufferMemoryRequirements) ROW(AllocateMemory)
    ROW(QueueSubmit) ROW(GetDeviceProcAddr) ROW(CreateDevice) ROW(GetDeviceQueue)
    ROW(GetPhysicalDeviceFeatures2) ROW(CmdDispatch) ROW(CmdPipelineBarrier)
    ROW(EnumerateDeviceExtensionProperties) ROW(GetPipelineExecutablePropertiesKHR)
    ROW(GetPipelineExecutableStatisticsKHR) ROW(GetPhysicalDeviceProperties2)
    ROW(GetPhysicalDeviceCooperativeMatrixPropertiesKHR)};

static PFN_vkVoidFunction own(const char* name) {
  for (size_t n = 0; n < sizeof OWN / sizeof *OWN; ++n)
    if (!strcmp(OWN[n].name, name)) return OWN[n].code;
  return NULL;
}

static PFN_vkVoidFunction vk_GetDeviceProcAddr(VkDevice device, const char* name) {
  return own(name) ? own(name) : real_device(device, name);
}

PFN_vkVoidFunction vkGetInstanceProcAddr(VkInstance instance, const char* name) {
  if (!real_instance) {
    void* library = dlopen(getenv("REAL_VULKAN"), RTLD_NOW | RTLD_LOCAL);
    real_instance = (PFN_vkGetInstanceProcAddr)dlsym(library, "vkGetInstanceProcAddr");
  }
  if (instance && !real_device)
    real_device = (PFN_vkGetDeviceProcAddr)real_instance(instance, "vkGetDeviceProcAddr");
  return own(name) ? own(name) : real_instance(instance, name);
}
