// Memory of a Vulkan device. A driver allows some thousand allocations and takes long for each, so
// small buffers are cut from large ones, and wait for another use when they are freed. All that uses
// a buffer is in one queue, in order, so that it may be used again at once.
#pragma once
#include "vulkan_device.h"

namespace odtc {

struct VulkanBuffer {
  VkBuffer buffer;
  VkDeviceMemory memory;  // its own; null where it is a part of a larger piece
  size_t size;
  char* host;  // where the host sees it; null where it does not
};

class VulkanMemory {
 public:
  explicit VulkanMemory(const VulkanDevice* of) : of_(of) {}

  // Memory of the device, for kernels.
  VulkanBuffer* Allocate(size_t bytes) {
    size_t size = (std::max<size_t>(bytes, 1) + kRound - 1) / kRound * kRound;
    if (size > of_->Limits().maxStorageBufferRange) {
      TVM_FFI_THROW(RuntimeError) << "a buffer of " << bytes << " bytes: a kernel on this device can "
                                  << "use " << Grouped(of_->Limits().maxStorageBufferRange)
                                  << " bytes of a buffer";
    }
    std::string what = "a buffer of " + std::to_string(bytes) + " bytes";
    if (size > kSmall) return WithMemory(size, kDevice, what);
    std::vector<VulkanBuffer*>& idle = idle_[size];
    if (idle.empty()) return Cut(size, what);
    VulkanBuffer* found = idle.back();
    idle.pop_back();
    return found;
  }

  // Memory that the host and the device see.
  VulkanBuffer* AllocateShared(size_t size) {
    return WithMemory(size, kShared, "a staging buffer of " + std::to_string(size) + " bytes");
  }

  static bool IsPooled(const VulkanBuffer* buffer) { return buffer->memory == VK_NULL_HANDLE; }

  // Nothing that is queued uses a buffer that is not pooled any more.
  void Free(VulkanBuffer* buffer) {
    if (IsPooled(buffer)) {
      idle_[buffer->size].push_back(buffer);
      return;
    }
    vkDestroyBuffer(of_->device, buffer->buffer, nullptr);
    vkFreeMemory(of_->device, buffer->memory, nullptr);
    delete buffer;
  }

 private:
  static constexpr size_t kRound = 256, kSmall = 1 << 20, kPiece = 8 << 20;
  // The first of these that a device has is taken.
  using Choices = std::vector<VkMemoryPropertyFlags>;
  inline static const Choices kDevice = {VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, 0};
  inline static const Choices kShared = {
      VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT |
          VK_MEMORY_PROPERTY_HOST_CACHED_BIT,
      VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT};

  VulkanBuffer* WithMemory(size_t size, const Choices& choices, const std::string& what) {
    auto* made = new VulkanBuffer{Buffer(size, what), VK_NULL_HANDLE, size, nullptr};
    try {
      VkMemoryRequirements needs;
      vkGetBufferMemoryRequirements(of_->device, made->buffer, &needs);
      made->memory = Memory(needs, choices, what);
      CheckVulkan(vkBindBufferMemory(of_->device, made->buffer, made->memory, 0), what);
      if (&choices == &kShared) {
        void* host = nullptr;
        VkResult code = vkMapMemory(of_->device, made->memory, 0, VK_WHOLE_SIZE, 0, &host);
        CheckVulkan(code, what);
        made->host = static_cast<char*>(host);
      }
    } catch (...) {
      vkDestroyBuffer(of_->device, made->buffer, nullptr);
      vkFreeMemory(of_->device, made->memory, nullptr);
      delete made;
      throw;
    }
    return made;
  }

  VulkanBuffer* Cut(size_t size, const std::string& what) {
    VkBuffer buffer = Buffer(size, what);
    VkMemoryRequirements needs;
    vkGetBufferMemoryRequirements(of_->device, buffer, &needs);
    size_t offset = (used_ + needs.alignment - 1) / needs.alignment * needs.alignment;
    if (piece_ == VK_NULL_HANDLE || offset + needs.size > kPiece) {
      offset = 0;
      VkMemoryRequirements whole = needs;
      whole.size = kPiece;
      try {
        piece_ = Memory(whole, kDevice, what);
      } catch (...) {
        vkDestroyBuffer(of_->device, buffer, nullptr);
        throw;
      }
    }
    used_ = offset + needs.size;
    CheckVulkan(vkBindBufferMemory(of_->device, buffer, piece_, offset), what);
    return new VulkanBuffer{buffer, VK_NULL_HANDLE, size, nullptr};
  }

  VkBuffer Buffer(size_t size, const std::string& what) {
    VkBufferCreateInfo info{VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO};
    info.size = size;
    info.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_UNIFORM_BUFFER_BIT |
                 VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT;
    VkBuffer buffer;
    CheckVulkan(vkCreateBuffer(of_->device, &info, nullptr, &buffer), what);
    return buffer;
  }

  VkDeviceMemory Memory(const VkMemoryRequirements& needs, const Choices& choices,
                        const std::string& what) {
    int type = -1;
    for (size_t i = 0; type < 0 && i < choices.size(); ++i) {
      type = of_->MemoryType(needs.memoryTypeBits, choices[i]);
    }
    if (type < 0) TVM_FFI_THROW(RuntimeError) << what << ": the device has no such memory";
    VkMemoryAllocateInfo info{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO};
    info.allocationSize = needs.size;
    info.memoryTypeIndex = static_cast<uint32_t>(type);
    VkDeviceMemory memory;
    CheckVulkan(vkAllocateMemory(of_->device, &info, nullptr, &memory), what);
    return memory;
  }

  const VulkanDevice* of_;
  std::map<size_t, std::vector<VulkanBuffer*>> idle_;
  VkDeviceMemory piece_ = VK_NULL_HANDLE;
  size_t used_ = 0;
};

}  // namespace odtc
