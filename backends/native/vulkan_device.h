// Devices of Vulkan: what each can do, and clear errors where a call fails.
#pragma once
#include <vulkan/vulkan.h>

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "device_module.h"

namespace odtc {

inline std::string VulkanErrorName(VkResult code) {
  static const std::map<VkResult, const char*> names = {
      {VK_ERROR_OUT_OF_HOST_MEMORY, "out of host memory"},
      {VK_ERROR_OUT_OF_DEVICE_MEMORY, "out of device memory"},
      {VK_ERROR_INITIALIZATION_FAILED, "the driver failed"},
      {VK_ERROR_DEVICE_LOST, "the driver gave the device up, or it is gone"},
      {VK_ERROR_MEMORY_MAP_FAILED, "the driver cannot map memory"},
      {VK_ERROR_FEATURE_NOT_PRESENT, "the device lacks a feature"},
      {VK_ERROR_EXTENSION_NOT_PRESENT, "the device lacks an extension"},
      {VK_ERROR_INCOMPATIBLE_DRIVER, "the driver is too old"},
      {VK_ERROR_TOO_MANY_OBJECTS, "out of device resources"},
  };
  auto found = names.find(code);
  std::string number = "Vulkan error " + std::to_string(code);
  return found == names.end() ? number : std::string(found->second) + " (" + number + ")";
}

inline void CheckVulkan(VkResult code, const std::string& what) {
  if (code != VK_SUCCESS) {
    TVM_FFI_THROW(RuntimeError) << what << ": " << VulkanErrorName(code);
  }
}

// A number as odtc's messages have it: 134,217,728.
inline std::string Grouped(uint64_t number) {
  std::string digits = std::to_string(number);
  for (size_t at = digits.size(); at > 3;) digits.insert(at -= 3, ",");
  return digits;
}

// What a kernel's SPIR-V may ask of a device, by the number of the capability.
struct VulkanCapability {
  uint32_t number;
  const char* name;
};

const VulkanCapability kCapabilities[] = {
    {9, "arithmetic with float16"}, {10, "arithmetic with float64"}, {11, "arithmetic with int64"},
    {22, "arithmetic with int16"},  {39, "arithmetic with int8"},    {4433, "buffers of 16-bit numbers"},
    {4448, "buffers of 8-bit numbers"},
};

struct VulkanDevice {
  VkPhysicalDevice physical;
  VkPhysicalDeviceProperties properties;
  VkPhysicalDeviceMemoryProperties memory;
  VkDevice device;
  VkQueue queue;
  uint32_t family;
  uint32_t timestamp_bits;
  std::vector<uint32_t> capabilities;

  const VkPhysicalDeviceLimits& Limits() const { return properties.limits; }

  bool Has(uint32_t capability) const {
    return std::find(capabilities.begin(), capabilities.end(), capability) != capabilities.end();
  }

  // The first type of memory that a buffer may have with all of some properties; -1 if there is none.
  int MemoryType(uint32_t allowed, VkMemoryPropertyFlags wanted) const {
    for (uint32_t i = 0; i < memory.memoryTypeCount; ++i) {
      bool fits = (memory.memoryTypes[i].propertyFlags & wanted) == wanted;
      if (fits && (allowed >> i & 1)) return static_cast<int>(i);
    }
    return -1;
  }

  // All devices of this machine that can be used: GPUs first, in the order of their drivers.
  static std::vector<VulkanDevice> All() {
    VkApplicationInfo about{VK_STRUCTURE_TYPE_APPLICATION_INFO};
    about.pApplicationName = "odtc";
    about.apiVersion = VK_API_VERSION_1_1;
    VkInstanceCreateInfo info{VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO};
    info.pApplicationInfo = &about;
    VkInstance instance;
    std::vector<VulkanDevice> devices;
    if (vkCreateInstance(&info, nullptr, &instance) != VK_SUCCESS) return devices;
    uint32_t count = 0;
    vkEnumeratePhysicalDevices(instance, &count, nullptr);
    std::vector<VkPhysicalDevice> found(count);
    vkEnumeratePhysicalDevices(instance, &count, found.data());
    for (bool gpus : {true, false}) {
      for (VkPhysicalDevice each : found) {
        VulkanDevice device{};
        device.physical = each;
        vkGetPhysicalDeviceProperties(each, &device.properties);
        bool is_old = device.properties.apiVersion < VK_API_VERSION_1_1;
        if (is_old || device.IsGpu() != gpus) continue;
        if (device.Open()) devices.push_back(device);
      }
    }
    return devices;
  }

 private:
  bool IsGpu() const {
    VkPhysicalDeviceType type = properties.deviceType;
    return type == VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU ||
           type == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU ||
           type == VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU;
  }

  bool HasExtension(const char* name) const {
    uint32_t count = 0;
    vkEnumerateDeviceExtensionProperties(physical, nullptr, &count, nullptr);
    std::vector<VkExtensionProperties> found(count);
    vkEnumerateDeviceExtensionProperties(physical, nullptr, &count, found.data());
    return std::any_of(found.begin(), found.end(), [name](const VkExtensionProperties& each) {
      return std::strcmp(each.extensionName, name) == 0;
    });
  }

  bool FindFamily() {
    uint32_t count = 0;
    vkGetPhysicalDeviceQueueFamilyProperties(physical, &count, nullptr);
    std::vector<VkQueueFamilyProperties> found(count);
    vkGetPhysicalDeviceQueueFamilyProperties(physical, &count, found.data());
    for (family = 0; family < count; ++family) {
      timestamp_bits = found[family].timestampValidBits;
      if (found[family].queueFlags & VK_QUEUE_COMPUTE_BIT) return true;
    }
    return false;
  }

  // Opens the device with all that kernels may ask for and it has; false if it cannot be used.
  bool Open() {
    if (!FindFamily()) return false;
    vkGetPhysicalDeviceMemoryProperties(physical, &memory);
    std::vector<const char*> extensions;
    VkPhysicalDeviceShaderFloat16Int8Features small{
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES};
    VkPhysicalDevice8BitStorageFeatures bytes{
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_8BIT_STORAGE_FEATURES};
    VkPhysicalDevice16BitStorageFeatures halves{
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES};
    VkPhysicalDeviceFeatures2 features{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, &halves};
    void** next = &halves.pNext;
    if (HasExtension(VK_KHR_SHADER_FLOAT16_INT8_EXTENSION_NAME)) {
      extensions.push_back(VK_KHR_SHADER_FLOAT16_INT8_EXTENSION_NAME);
      *next = &small;
      next = &small.pNext;
    }
    if (HasExtension(VK_KHR_8BIT_STORAGE_EXTENSION_NAME)) {
      extensions.push_back(VK_KHR_8BIT_STORAGE_EXTENSION_NAME);
      *next = &bytes;
    }
    vkGetPhysicalDeviceFeatures2(physical, &features);
    // Each access would be checked: kernels stay within their buffers.
    features.features.robustBufferAccess = VK_FALSE;
    const VkBool32 has[] = {small.shaderFloat16,          features.features.shaderFloat64,
                            features.features.shaderInt64, features.features.shaderInt16,
                            small.shaderInt8,             halves.storageBuffer16BitAccess,
                            bytes.storageBuffer8BitAccess};
    for (size_t i = 0; i < std::size(has); ++i) {
      if (has[i]) capabilities.push_back(kCapabilities[i].number);
    }
    float priority = 1;
    VkDeviceQueueCreateInfo queues{VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO};
    queues.queueFamilyIndex = family;
    queues.queueCount = 1;
    queues.pQueuePriorities = &priority;
    VkDeviceCreateInfo info{VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, &features};
    info.queueCreateInfoCount = 1;
    info.pQueueCreateInfos = &queues;
    info.enabledExtensionCount = static_cast<uint32_t>(extensions.size());
    info.ppEnabledExtensionNames = extensions.data();
    if (vkCreateDevice(physical, &info, nullptr, &device) != VK_SUCCESS) return false;
    vkGetDeviceQueue(device, family, 0, &queue);
    return true;
  }
};

}  // namespace odtc
