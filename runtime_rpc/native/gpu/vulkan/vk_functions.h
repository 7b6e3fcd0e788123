/* The functions of Vulkan that a step needs: what they return, their names after vk, and what they take.
   Whoever includes this defines X. VK_OF_LOADER are there without an instance, VK_OF_INSTANCE with one, and
   VK_OF_DEVICE belong to a device, where calls need not look up which driver is meant; VK_OF_STATISTICS to one that has them. */
#ifndef ODTC_VK_FUNCTIONS_H
#define ODTC_VK_FUNCTIONS_H

#define VK_ALLOCATOR const VkAllocationCallbacks *

#define VK_OF_LOADER(X) \
  X(VkResult, CreateInstance, (const VkInstanceCreateInfo *, VK_ALLOCATOR, VkInstance *))

#define VK_OF_INSTANCE(X) \
  X(void, DestroyInstance, (VkInstance, VK_ALLOCATOR)) \
  X(VkResult, EnumeratePhysicalDevices, (VkInstance, uint32_t *, VkPhysicalDevice *)) \
  X(void, GetPhysicalDeviceProperties2, (VkPhysicalDevice, VkPhysicalDeviceProperties2 *)) \
  X(void, GetPhysicalDeviceProperties, (VkPhysicalDevice, VkPhysicalDeviceProperties *)) \
  X(void, GetPhysicalDeviceFeatures2, (VkPhysicalDevice, VkPhysicalDeviceFeatures2 *)) \
  X(void, GetPhysicalDeviceMemoryProperties, (VkPhysicalDevice, VkPhysicalDeviceMemoryProperties *)) \
  X(void, GetPhysicalDeviceQueueFamilyProperties, \
    (VkPhysicalDevice, uint32_t *, VkQueueFamilyProperties *)) \
  X(VkResult, EnumerateDeviceExtensionProperties, \
    (VkPhysicalDevice, const char *, uint32_t *, VkExtensionProperties *)) \
  X(VkResult, CreateDevice, \
    (VkPhysicalDevice, const VkDeviceCreateInfo *, VK_ALLOCATOR, VkDevice *)) \
  X(PFN_vkVoidFunction, GetDeviceProcAddr, (VkDevice, const char *))

#define VK_CREATE(X, name) \
  X(VkResult, Create##name, (VkDevice, const Vk##name##CreateInfo *, VK_ALLOCATOR, Vk##name *)) \
  X(void, Destroy##name, (VkDevice, Vk##name, VK_ALLOCATOR))

#define VK_OF_DEVICE(X) \
  X(void, DestroyDevice, (VkDevice, VK_ALLOCATOR)) \
  X(void, GetDeviceQueue, (VkDevice, uint32_t, uint32_t, VkQueue *)) \
  VK_CREATE(X, Buffer) \
  VK_CREATE(X, BufferView) \
  VK_CREATE(X, ShaderModule) \
  VK_CREATE(X, PipelineCache) \
  VK_CREATE(X, PipelineLayout) \
  VK_CREATE(X, DescriptorSetLayout) \
  VK_CREATE(X, DescriptorPool) \
  VK_CREATE(X, CommandPool) \
  VK_CREATE(X, Fence) \
  VK_CREATE(X, QueryPool) \
  X(void, GetBufferMemoryRequirements, (VkDevice, VkBuffer, VkMemoryRequirements *)) \
  X(VkResult, AllocateMemory, \
    (VkDevice, const VkMemoryAllocateInfo *, VK_ALLOCATOR, VkDeviceMemory *)) \
  X(void, FreeMemory, (VkDevice, VkDeviceMemory, VK_ALLOCATOR)) \
  X(VkResult, BindBufferMemory, (VkDevice, VkBuffer, VkDeviceMemory, VkDeviceSize)) \
  X(VkResult, MapMemory, (VkDevice, VkDeviceMemory, VkDeviceSize, VkDeviceSize, VkFlags, void **)) \
  X(VkResult, GetPipelineCacheData, (VkDevice, VkPipelineCache, size_t *, void *)) \
  X(VkResult, CreateComputePipelines, \
    (VkDevice, VkPipelineCache, uint32_t, const VkComputePipelineCreateInfo *, VK_ALLOCATOR, \
     VkPipeline *)) \
  X(void, DestroyPipeline, (VkDevice, VkPipeline, VK_ALLOCATOR)) \
  X(VkResult, AllocateDescriptorSets, \
    (VkDevice, const VkDescriptorSetAllocateInfo *, VkDescriptorSet *)) \
  X(void, UpdateDescriptorSets, \
    (VkDevice, uint32_t, const VkWriteDescriptorSet *, uint32_t, const VkCopyDescriptorSet *)) \
  X(VkResult, AllocateCommandBuffers, \
    (VkDevice, const VkCommandBufferAllocateInfo *, VkCommandBuffer *)) \
  X(void, FreeCommandBuffers, (VkDevice, VkCommandPool, uint32_t, const VkCommandBuffer *)) \
  X(VkResult, BeginCommandBuffer, (VkCommandBuffer, const VkCommandBufferBeginInfo *)) \
  X(VkResult, EndCommandBuffer, (VkCommandBuffer)) \
  X(void, CmdBindPipeline, (VkCommandBuffer, VkPipelineBindPoint, VkPipeline)) \
  X(void, CmdBindDescriptorSets, \
    (VkCommandBuffer, VkPipelineBindPoint, VkPipelineLayout, uint32_t, uint32_t, \
     const VkDescriptorSet *, uint32_t, const uint32_t *)) \
  X(void, CmdPushConstants, \
    (VkCommandBuffer, VkPipelineLayout, VkFlags, uint32_t, uint32_t, const void *)) \
  X(void, CmdDispatch, (VkCommandBuffer, uint32_t, uint32_t, uint32_t)) \
  X(void, CmdDispatchBase, \
    (VkCommandBuffer, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t)) \
  X(void, CmdPipelineBarrier, \
    (VkCommandBuffer, VkFlags, VkFlags, VkFlags, uint32_t, const VkMemoryBarrier *, uint32_t, \
     const VkBufferMemoryBarrier *, uint32_t, const VkImageMemoryBarrier *)) \
  X(void, CmdCopyBuffer, (VkCommandBuffer, VkBuffer, VkBuffer, uint32_t, const VkBufferCopy *)) \
  X(void, CmdFillBuffer, (VkCommandBuffer, VkBuffer, VkDeviceSize, VkDeviceSize, uint32_t)) \
  X(void, CmdUpdateBuffer, (VkCommandBuffer, VkBuffer, VkDeviceSize, VkDeviceSize, const void *)) \
  X(void, CmdResetQueryPool, (VkCommandBuffer, VkQueryPool, uint32_t, uint32_t)) \
  X(void, CmdWriteTimestamp, (VkCommandBuffer, VkPipelineStageFlagBits, VkQueryPool, uint32_t)) \
  X(VkResult, GetQueryPoolResults, \
    (VkDevice, VkQueryPool, uint32_t, uint32_t, size_t, void *, VkDeviceSize, VkFlags)) \
  X(VkResult, QueueSubmit, (VkQueue, uint32_t, const VkSubmitInfo *, VkFence)) \
  X(VkResult, WaitForFences, (VkDevice, uint32_t, const VkFence *, VkBool32, uint64_t)) \
  X(VkResult, ResetFences, (VkDevice, uint32_t, const VkFence *)) \
  X(VkResult, DeviceWaitIdle, (VkDevice))

/* Of VK_KHR_pipeline_executable_properties. */
#define VK_OF_STATISTICS(X) \
  X(VkResult, GetPipelineExecutablePropertiesKHR, \
    (VkDevice, const VkPipelineInfoKHR *, uint32_t *, VkPipelineExecutablePropertiesKHR *)) \
  X(VkResult, GetPipelineExecutableStatisticsKHR, \
    (VkDevice, const VkPipelineExecutableInfoKHR *, uint32_t *, VkPipelineExecutableStatisticKHR *))

#endif
