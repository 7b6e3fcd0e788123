// The queue of a Vulkan device: commands run in the order in which they are given.
//
// Commands are recorded into batches, which are submitted when they are full, so that the device
// runs one while the next is recorded; a few batches take turns. Each command waits for those before
// it, with all that they have written.
#pragma once
#include <functional>
#include <memory>
#include <mutex>

#include "vulkan_memory.h"

namespace odtc {

class VulkanQueue {
 public:
  explicit VulkanQueue(const VulkanDevice& device) : of_(device), memory_(&of_) {
    VkCommandPoolCreateInfo info{VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO};
    info.flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT;
    info.queueFamilyIndex = of_.family;
    CheckVulkan(vkCreateCommandPool(of_.device, &info, nullptr, &commands_), "a command pool");
    for (Batch& each : batches_) Prepare(&each);
    staging_ = memory_.AllocateShared(kStaging);
  }

  const VulkanDevice& Device() const { return of_; }

  std::recursive_mutex& Mutex() { return mutex_; }

  VulkanBuffer* Allocate(size_t bytes) {
    Guard guard(mutex_);
    return memory_.Allocate(bytes);
  }

  // Must not throw: tensors are freed where no caller can catch.
  void Free(VulkanBuffer* buffer) {
    Guard guard(mutex_);
    if (!VulkanMemory::IsPooled(buffer)) WaitForAll();
    memory_.Free(buffer);
  }

  void Wait() {
    Guard guard(mutex_);
    CheckVulkan(WaitForAll(), "waiting for the device");
  }

  void Upload(const char* from, VulkanBuffer* to, size_t offset, size_t size) {
    Guard guard(mutex_);
    while (size > 0) {
      if (staged_ == kStaging) Wait();
      size_t part = std::min({size, kStaging - staged_, kPart});
      std::memcpy(staging_->host + staged_, from, part);
      Copy("upload", staging_->buffer, staged_, to->buffer, offset, part);
      staged_ += part;
      // While this part is copied, the host stages the next one.
      if (size > part) CheckVulkan(Submit(), "an upload");
      from += part, offset += part, size -= part;
    }
  }

  void Download(const VulkanBuffer* from, size_t offset, char* to, size_t size) {
    Guard guard(mutex_);
    while (size > 0) {
      Wait();
      size_t part = std::min(size, kStaging);
      Copy("download", from->buffer, offset, staging_->buffer, 0, part);
      Wait();
      std::memcpy(to, staging_->host, part);
      to += part, offset += part, size -= part;
    }
  }

  void Copy(const std::string& name, VkBuffer from, size_t from_offset, VkBuffer to,
            size_t to_offset, size_t size) {
    Record(name, [&](VkCommandBuffer commands) {
      VkBufferCopy part{from_offset, to_offset, size};
      vkCmdCopyBuffer(commands, from, to, 1, &part);
    });
  }

  // Records one command.
  void Record(const std::string& name, const std::function<void(VkCommandBuffer)>& command) {
    Guard guard(mutex_);
    Batch& batch = Open(name);
    VkMemoryBarrier barrier{VK_STRUCTURE_TYPE_MEMORY_BARRIER};
    barrier.srcAccessMask = VK_ACCESS_MEMORY_WRITE_BIT;
    barrier.dstAccessMask = VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT;
    vkCmdPipelineBarrier(batch.commands, kStages, kStages, 0, 1, &barrier, 0, nullptr, 0, nullptr);
    if (is_watching_) {
      uint32_t query = 2 * batch.count;
      vkCmdWriteTimestamp(batch.commands, VK_PIPELINE_STAGE_TOP_OF_PIPE_BIT, batch.times, query);
      command(batch.commands);
      vkCmdWriteTimestamp(batch.commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, batch.times,
                          query + 1);
      batch.names.push_back(name);
      ++watched_count_;
    } else {
      command(batch.commands);
    }
    if (++batch.count == kCommands) CheckVulkan(Submit(), name);
  }

  // A descriptor set that lasts as long as the batch that is open.
  VkDescriptorSet Descriptors(VkDescriptorSetLayout layout, const std::string& name) {
    Batch& batch = Open(name);
    VkDescriptorSetAllocateInfo info{VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO};
    info.descriptorSetCount = 1;
    info.pSetLayouts = &layout;
    for (;; ++batch.pool) {
      if (batch.pool == batch.pools.size()) batch.pools.push_back(Pool());
      info.descriptorPool = batch.pools[batch.pool];
      VkDescriptorSet set;
      VkResult code = vkAllocateDescriptorSets(of_.device, &info, &set);
      if (code == VK_SUCCESS) return set;
      bool is_full = code == VK_ERROR_OUT_OF_POOL_MEMORY || code == VK_ERROR_FRAGMENTED_POOL;
      if (!is_full) CheckVulkan(code, name);
    }
  }

  // Numbers that the kernels of the batch that is open read.
  VkDescriptorBufferInfo Uniform(const std::vector<uint64_t>& numbers, const std::string& name) {
    size_t size = numbers.size() * sizeof(uint64_t);
    size_t unit = std::max<size_t>(of_.Limits().minUniformBufferOffsetAlignment, 16);
    if (size > kUniform) TVM_FFI_THROW(RuntimeError) << name << " has too many numbers";
    if (Open(name).uniform_used + size > kUniform) CheckVulkan(Submit(), name);
    Batch& batch = Open(name);
    if (!batch.uniform) batch.uniform = memory_.AllocateShared(kUniform);
    size_t offset = batch.uniform_used;
    std::memcpy(batch.uniform->host + offset, numbers.data(), size);
    batch.uniform_used = (offset + size + unit - 1) / unit * unit;
    return {batch.uniform->buffer, offset, size};
  }

  // Starts or stops watching what runs; waits for what is queued.
  void Watch(bool on) {
    Guard guard(mutex_);
    Wait();
    if (on && of_.timestamp_bits == 0) {
      TVM_FFI_THROW(RuntimeError) << of_.properties.deviceName << " does not say when a kernel runs";
    }
    is_watching_ = on;
  }

  // Commands queued since the last call of `TakeWatched`, while they were watched.
  int64_t CountWatched() {
    Guard guard(mutex_);
    return watched_count_;
  }

  // What ran since the last call, as "name start end" in nanoseconds, one to a line.
  std::string TakeWatched() {
    Guard guard(mutex_);
    Wait();
    watched_count_ = 0;
    return std::move(watched_);
  }

 private:
  using Guard = std::lock_guard<std::recursive_mutex>;

  static constexpr uint32_t kCommands = 32;
  static constexpr size_t kStaging = 32 << 20, kPart = 4 << 20, kUniform = 64 << 10;
  static constexpr VkPipelineStageFlags kStages = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;

  struct Batch {
    VkCommandBuffer commands;
    VkFence done;
    bool is_open = false, is_running = false;
    uint32_t count = 0;
    std::vector<VkDescriptorPool> pools;
    size_t pool = 0;  // the first that may have room
    VulkanBuffer* uniform = nullptr;
    size_t uniform_used = 0;
    VkQueryPool times = VK_NULL_HANDLE;
    std::vector<std::string> names;  // of the commands that are watched
  };

  void Prepare(Batch* batch) {
    VkCommandBufferAllocateInfo info{VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO};
    info.commandPool = commands_;
    info.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
    info.commandBufferCount = 1;
    CheckVulkan(vkAllocateCommandBuffers(of_.device, &info, &batch->commands), "a command buffer");
    VkFenceCreateInfo fence{VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
    CheckVulkan(vkCreateFence(of_.device, &fence, nullptr, &batch->done), "a fence");
  }

  VkDescriptorPool Pool() {
    const VkDescriptorPoolSize sizes[] = {{VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 16 * kCommands},
                                          {VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER, kCommands}};
    VkDescriptorPoolCreateInfo info{VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO};
    info.maxSets = kCommands;
    info.poolSizeCount = 2;
    info.pPoolSizes = sizes;
    VkDescriptorPool pool;
    CheckVulkan(vkCreateDescriptorPool(of_.device, &info, nullptr, &pool), "a descriptor pool");
    return pool;
  }

  // The batch that is recorded.
  Batch& Open(const std::string& name) {
    Batch& batch = batches_[next_];
    if (batch.is_open) return batch;
    CheckVulkan(Retire(&batch), name);
    VkCommandBufferBeginInfo info{VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    info.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
    CheckVulkan(vkBeginCommandBuffer(batch.commands, &info), name);
    if (is_watching_) {
      VkQueryPoolCreateInfo times{VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO};
      times.queryType = VK_QUERY_TYPE_TIMESTAMP;
      times.queryCount = 2 * kCommands;
      if (batch.times == VK_NULL_HANDLE) {
        CheckVulkan(vkCreateQueryPool(of_.device, &times, nullptr, &batch.times), name);
      }
      vkCmdResetQueryPool(batch.commands, batch.times, 0, 2 * kCommands);
    }
    batch.is_open = true;
    return batch;
  }

  // Gives the open batch to the device.
  VkResult Submit() {
    Batch& batch = batches_[next_];
    if (!batch.is_open) return VK_SUCCESS;
    batch.is_open = false;
    // The host may read what the batch has written.
    VkMemoryBarrier barrier{VK_STRUCTURE_TYPE_MEMORY_BARRIER};
    barrier.srcAccessMask = VK_ACCESS_MEMORY_WRITE_BIT;
    barrier.dstAccessMask = VK_ACCESS_HOST_READ_BIT;
    vkCmdPipelineBarrier(batch.commands, kStages, VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &barrier, 0,
                         nullptr, 0, nullptr);
    VkResult code = vkEndCommandBuffer(batch.commands);
    if (code != VK_SUCCESS) return code;
    VkSubmitInfo info{VK_STRUCTURE_TYPE_SUBMIT_INFO};
    info.commandBufferCount = 1;
    info.pCommandBuffers = &batch.commands;
    code = vkQueueSubmit(of_.queue, 1, &info, batch.done);
    batch.is_running = code == VK_SUCCESS;
    next_ = (next_ + 1) % std::size(batches_);
    return code;
  }

  // Waits until the device has run a batch, which can be recorded anew then.
  VkResult Retire(Batch* batch) {
    VkResult code = VK_SUCCESS;
    if (batch->is_running) {
      code = vkWaitForFences(of_.device, 1, &batch->done, VK_TRUE, UINT64_MAX);
      if (code == VK_SUCCESS) KeepTimes(*batch);
      vkResetFences(of_.device, 1, &batch->done);
    }
    for (VkDescriptorPool pool : batch->pools) vkResetDescriptorPool(of_.device, pool, 0);
    batch->is_running = false;
    batch->names.clear();
    batch->count = 0;
    batch->pool = batch->uniform_used = 0;
    return code;
  }

  VkResult WaitForAll() {
    VkResult first = Submit();
    for (size_t i = 0; i < std::size(batches_); ++i) {
      VkResult code = Retire(&batches_[(next_ + i) % std::size(batches_)]);
      if (first == VK_SUCCESS) first = code;
    }
    staged_ = 0;
    return first;
  }

  void KeepTimes(const Batch& batch) {
    if (batch.names.empty()) return;
    std::vector<uint64_t> ticks(2 * batch.names.size());
    VkResult code = vkGetQueryPoolResults(
        of_.device, batch.times, 0, static_cast<uint32_t>(ticks.size()), ticks.size() * 8,
        ticks.data(), sizeof(uint64_t), VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT);
    if (code != VK_SUCCESS) return;
    double period = of_.Limits().timestampPeriod;
    for (size_t i = 0; i < batch.names.size(); ++i) {
      watched_ += batch.names[i];
      for (size_t j : {2 * i, 2 * i + 1}) {
        watched_ += " " + std::to_string(static_cast<uint64_t>(ticks[j] * period));
      }
      watched_ += "\n";
    }
  }

  VulkanDevice of_;
  VulkanMemory memory_;
  std::recursive_mutex mutex_;
  VkCommandPool commands_;
  Batch batches_[8];
  size_t next_ = 0;  // of the batch that is open, or will be
  VulkanBuffer* staging_;
  size_t staged_ = 0;
  bool is_watching_ = false;
  std::string watched_;
  int64_t watched_count_ = 0;
};

}  // namespace odtc
