/* Declarations of Vulkan 1.1, as far as a step needs them: names, values and layouts are Khronos', and a
   test compares them with vulkan.h. Members whose names begin with `unused` stand for several of its. */
#ifndef ODTC_VK_H
#define ODTC_VK_H

#include "vk_constants.h"

/* What begins a structure that functions take or fill in. */
#define VK_INPUT VkStructureType sType; const void *pNext;
#define VK_OUTPUT VkStructureType sType; void *pNext;

typedef struct {
  VK_INPUT
  const char *pApplicationName;
  uint32_t applicationVersion;
  const char *pEngineName;
  uint32_t engineVersion, apiVersion;
} VkApplicationInfo;

typedef struct {
  VK_INPUT
  VkFlags flags;
  const VkApplicationInfo *pApplicationInfo;
  uint32_t enabledLayerCount;
  const char *const *ppEnabledLayerNames;
  uint32_t enabledExtensionCount;
  const char *const *ppEnabledExtensionNames;
} VkInstanceCreateInfo;

typedef struct {
  uint32_t unused_images[5], maxTexelBufferElements;
  uint32_t maxUniformBufferRange, maxStorageBufferRange, maxPushConstantsSize;
  uint32_t maxMemoryAllocationCount, maxSamplerAllocationCount;
  VkDeviceSize bufferImageGranularity, sparseAddressSpaceSize;
  uint32_t maxBoundDescriptorSets, maxPerStageDescriptorSamplers;
  uint32_t maxPerStageDescriptorUniformBuffers, maxPerStageDescriptorStorageBuffers;
  uint32_t maxPerStageDescriptorSampledImages, unused_graphics[33];
  uint32_t maxComputeSharedMemorySize;
  uint32_t maxComputeWorkGroupCount[3];
  uint32_t maxComputeWorkGroupInvocations;
  uint32_t maxComputeWorkGroupSize[3];
  uint32_t unused_drawing[13];
  size_t minMemoryMapAlignment;
  VkDeviceSize minTexelBufferOffsetAlignment, minUniformBufferOffsetAlignment;
  VkDeviceSize minStorageBufferOffsetAlignment;
  uint32_t unused_texels[21];
  VkBool32 timestampComputeAndGraphics;
  float timestampPeriod; /* nanoseconds of a tick */
  uint32_t unused_lines[12];
  VkDeviceSize optimalBufferCopyOffsetAlignment, optimalBufferCopyRowPitchAlignment;
  VkDeviceSize nonCoherentAtomSize;
} VkPhysicalDeviceLimits;

typedef struct {
  uint32_t apiVersion, driverVersion, vendorID, deviceID;
  VkPhysicalDeviceType deviceType;
  char deviceName[VK_MAX_PHYSICAL_DEVICE_NAME_SIZE];
  uint8_t pipelineCacheUUID[VK_UUID_SIZE];
  VkPhysicalDeviceLimits limits;
  VkBool32 unused_sparse[5];
} VkPhysicalDeviceProperties;

typedef struct {
  VK_OUTPUT
  VkPhysicalDeviceProperties properties;
} VkPhysicalDeviceProperties2;

typedef struct {
  VK_OUTPUT
  uint8_t deviceUUID[VK_UUID_SIZE], driverUUID[VK_UUID_SIZE], deviceLUID[8];
  uint32_t deviceNodeMask;
  VkBool32 deviceLUIDValid;
} VkPhysicalDeviceIDProperties;

typedef struct {
  VkBool32 robustBufferAccess;
  VkBool32 unused_drawing[38];
  VkBool32 shaderFloat64, shaderInt64, shaderInt16;
  VkBool32 unused_sparse[13];
} VkPhysicalDeviceFeatures;

typedef struct {
  VK_OUTPUT
  VkPhysicalDeviceFeatures features;
} VkPhysicalDeviceFeatures2;

typedef struct {
  VK_OUTPUT
  VkBool32 shaderFloat16, shaderInt8;
} VkPhysicalDeviceShaderFloat16Int8Features;

typedef struct {
  VK_OUTPUT
  VkBool32 storageBuffer16BitAccess, uniformAndStorageBuffer16BitAccess;
  VkBool32 storagePushConstant16, storageInputOutput16;
} VkPhysicalDevice16BitStorageFeatures;

typedef struct {
  VK_OUTPUT
  VkBool32 storageBuffer8BitAccess, uniformAndStorageBuffer8BitAccess, storagePushConstant8;
} VkPhysicalDevice8BitStorageFeatures;

typedef struct {
  VK_OUTPUT
  VkBool32 vulkanMemoryModel, vulkanMemoryModelDeviceScope, vulkanMemoryModelAvailabilityVisibilityChains;
} VkPhysicalDeviceVulkanMemoryModelFeatures;

typedef struct {
  VK_OUTPUT
  VkBool32 subgroupSizeControl, computeFullSubgroups;
} VkPhysicalDeviceSubgroupSizeControlFeatures;

typedef struct {
  VK_OUTPUT
  uint32_t minSubgroupSize, maxSubgroupSize, maxComputeWorkgroupSubgroups;
  VkFlags requiredSubgroupSizeStages;
} VkPhysicalDeviceSubgroupSizeControlProperties;

typedef struct {
  VK_OUTPUT
  uint32_t subgroupSize;
  VkFlags supportedStages, supportedOperations;
  VkBool32 quadOperationsInAllStages;
} VkPhysicalDeviceSubgroupProperties;

typedef struct {
  VK_OUTPUT
  uint32_t requiredSubgroupSize;
} VkPipelineShaderStageRequiredSubgroupSizeCreateInfo;

typedef struct {
  VkFlags queueFlags;
  uint32_t queueCount, timestampValidBits, unused_images[3];
} VkQueueFamilyProperties;

typedef struct {
  VkFlags propertyFlags;
  uint32_t heapIndex;
} VkMemoryType;

typedef struct {
  VkDeviceSize size;
  VkFlags flags;
} VkMemoryHeap;

typedef struct {
  uint32_t memoryTypeCount;
  VkMemoryType memoryTypes[VK_MAX_MEMORY_TYPES];
  uint32_t memoryHeapCount;
  VkMemoryHeap memoryHeaps[VK_MAX_MEMORY_HEAPS];
} VkPhysicalDeviceMemoryProperties;

typedef struct {
  char extensionName[VK_MAX_EXTENSION_NAME_SIZE];
  uint32_t specVersion;
} VkExtensionProperties;

typedef struct {
  VK_INPUT
  VkFlags flags;
  uint32_t queueFamilyIndex, queueCount;
  const float *pQueuePriorities;
} VkDeviceQueueCreateInfo;

typedef struct {
  VK_INPUT
  VkFlags flags;
  uint32_t queueCreateInfoCount;
  const VkDeviceQueueCreateInfo *pQueueCreateInfos;
  uint32_t enabledLayerCount;
  const char *const *ppEnabledLayerNames;
  uint32_t enabledExtensionCount;
  const char *const *ppEnabledExtensionNames;
  const VkPhysicalDeviceFeatures *pEnabledFeatures;
} VkDeviceCreateInfo;

typedef struct {
  VK_INPUT
  VkFlags flags;
  VkDeviceSize size;
  VkFlags usage;
  VkSharingMode sharingMode;
  uint32_t queueFamilyIndexCount;
  const uint32_t *pQueueFamilyIndices;
} VkBufferCreateInfo;

typedef struct {
  VK_INPUT
  VkFlags flags;
  VkBuffer buffer;
  VkFormat format;
  VkDeviceSize offset, range;
} VkBufferViewCreateInfo;

typedef struct {
  VkDeviceSize size, alignment;
  uint32_t memoryTypeBits;
} VkMemoryRequirements;

typedef struct {
  VK_INPUT
  VkDeviceSize allocationSize;
  uint32_t memoryTypeIndex;
} VkMemoryAllocateInfo;

typedef struct {
  VK_INPUT
  VkFlags flags;
  size_t codeSize;
  const uint32_t *pCode;
} VkShaderModuleCreateInfo;

typedef struct {
  VK_INPUT
  VkFlags flags;
  size_t initialDataSize;
  const void *pInitialData;
} VkPipelineCacheCreateInfo;

typedef struct {
  uint32_t constantID, offset;
  size_t size;
} VkSpecializationMapEntry;

typedef struct {
  uint32_t mapEntryCount;
  const VkSpecializationMapEntry *pMapEntries;
  size_t dataSize;
  const void *pData;
} VkSpecializationInfo;

typedef struct {
  VK_INPUT
  VkFlags flags;
  VkShaderStageFlagBits stage;
  VkShaderModule module;
  const char *pName;
  const VkSpecializationInfo *pSpecializationInfo;
} VkPipelineShaderStageCreateInfo;

typedef struct {
  VK_INPUT
  VkFlags flags;
  VkPipelineShaderStageCreateInfo stage;
  VkPipelineLayout layout;
  VkPipeline basePipelineHandle;
  int32_t basePipelineIndex;
} VkComputePipelineCreateInfo;

typedef struct {
  VK_OUTPUT
  VkBool32 pipelineExecutableInfo;
} VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR;

typedef struct {
  VK_INPUT
  VkPipeline pipeline;
} VkPipelineInfoKHR;

typedef struct {
  VK_OUTPUT
  VkFlags stages;
  char name[VK_MAX_DESCRIPTION_SIZE], description[VK_MAX_DESCRIPTION_SIZE];
  uint32_t subgroupSize;
} VkPipelineExecutablePropertiesKHR;

typedef struct {
  VK_INPUT
  VkPipeline pipeline;
  uint32_t executableIndex;
} VkPipelineExecutableInfoKHR;

typedef struct {
  VK_OUTPUT
  char name[VK_MAX_DESCRIPTION_SIZE], description[VK_MAX_DESCRIPTION_SIZE];
  VkPipelineExecutableStatisticFormatKHR format;
  uint64_t value; /* in the bytes of its format */
} VkPipelineExecutableStatisticKHR;

typedef struct {
  uint32_t binding;
  VkDescriptorType descriptorType;
  uint32_t descriptorCount;
  VkFlags stageFlags;
  const void *pImmutableSamplers;
} VkDescriptorSetLayoutBinding;

typedef struct {
  VK_INPUT
  VkFlags flags;
  uint32_t bindingCount;
  const VkDescriptorSetLayoutBinding *pBindings;
} VkDescriptorSetLayoutCreateInfo;

typedef struct {
  VkFlags stageFlags;
  uint32_t offset, size;
} VkPushConstantRange;

typedef struct {
  VK_INPUT
  VkFlags flags;
  uint32_t setLayoutCount;
  const VkDescriptorSetLayout *pSetLayouts;
  uint32_t pushConstantRangeCount;
  const VkPushConstantRange *pPushConstantRanges;
} VkPipelineLayoutCreateInfo;

typedef struct {
  VkDescriptorType type;
  uint32_t descriptorCount;
} VkDescriptorPoolSize;

typedef struct {
  VK_INPUT
  VkFlags flags;
  uint32_t maxSets, poolSizeCount;
  const VkDescriptorPoolSize *pPoolSizes;
} VkDescriptorPoolCreateInfo;

typedef struct {
  VK_INPUT
  VkDescriptorPool descriptorPool;
  uint32_t descriptorSetCount;
  const VkDescriptorSetLayout *pSetLayouts;
} VkDescriptorSetAllocateInfo;

typedef struct {
  VkBuffer buffer;
  VkDeviceSize offset, range;
} VkDescriptorBufferInfo;

typedef struct {
  VK_INPUT
  VkDescriptorSet dstSet;
  uint32_t dstBinding, dstArrayElement, descriptorCount;
  VkDescriptorType descriptorType;
  const void *pImageInfo;
  const VkDescriptorBufferInfo *pBufferInfo;
  const VkBufferView *pTexelBufferView;
} VkWriteDescriptorSet;

typedef struct {
  VK_INPUT
  VkFlags flags;
  uint32_t queueFamilyIndex;
} VkCommandPoolCreateInfo;

typedef struct {
  VK_INPUT
  VkCommandPool commandPool;
  VkCommandBufferLevel level;
  uint32_t commandBufferCount;
} VkCommandBufferAllocateInfo;

typedef struct {
  VK_INPUT
  VkFlags flags;
  const void *pInheritanceInfo;
} VkCommandBufferBeginInfo;

typedef struct {
  VK_INPUT
  VkFlags srcAccessMask, dstAccessMask;
} VkMemoryBarrier;

typedef struct {
  VkDeviceSize srcOffset, dstOffset, size;
} VkBufferCopy;

typedef struct {
  VK_INPUT
  uint32_t waitSemaphoreCount;
  const VkSemaphore *pWaitSemaphores;
  const VkFlags *pWaitDstStageMask;
  uint32_t commandBufferCount;
  const VkCommandBuffer *pCommandBuffers;
  uint32_t signalSemaphoreCount;
  const VkSemaphore *pSignalSemaphores;
} VkSubmitInfo;

typedef struct {
  VK_INPUT
  VkFlags flags;
} VkFenceCreateInfo;

typedef struct {
  VK_INPUT
  VkFlags flags;
  VkQueryType queryType;
  uint32_t queryCount;
  VkFlags pipelineStatistics;
} VkQueryPoolCreateInfo;

#endif
