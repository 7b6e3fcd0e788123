// TVM's device interface and module loader for Vulkan, which the wheel of TVM does not have.
//
// Calls return when they are queued; a copy to the host waits. Copies between host and device go
// through a staging buffer, in the queue as kernels are, so that an upload does not wait.
#include "vulkan_queue.h"

namespace odtc {

using tvm::Device;

class VulkanDevices final : public tvm::runtime::DeviceAPI {
 public:
  static VulkanDevices* Global() {
    static VulkanDevices* devices = new VulkanDevices();
    return devices;
  }

  static int& Current() {
    static thread_local int number = 0;
    return number;
  }

  const std::vector<std::unique_ptr<VulkanQueue>>& All() {
    std::call_once(found_, [this] {
      for (const VulkanDevice& each : VulkanDevice::All()) {
        queues_.push_back(std::make_unique<VulkanQueue>(each));
      }
    });
    return queues_;
  }

  VulkanQueue& At(int number) {
    if (number < 0 || number >= static_cast<int>(All().size())) {
      TVM_FFI_THROW(RuntimeError) << "there is no Vulkan device " << number << ": this machine has "
                                  << All().size();
    }
    return *All()[number];
  }

  void SetDevice(Device device) final { Current() = device.device_id; }

  void GetAttr(Device device, tvm::runtime::DeviceAttrKind kind, ffi::Any* value) final {
    using namespace tvm::runtime;
    int number = device.device_id;
    if (kind == kExist) {
      *value = int64_t(number >= 0 && number < static_cast<int>(All().size()));
      return;
    }
    const VulkanDevice& of = At(number).Device();
    switch (kind) {
      case kMaxThreadsPerBlock:
        *value = int64_t(of.Limits().maxComputeWorkGroupInvocations);
        break;
      case kWarpSize:
        *value = int64_t(1);
        break;
      case kMaxSharedMemoryPerBlock:
        *value = int64_t(of.Limits().maxComputeSharedMemorySize);
        break;
      case kDeviceName:
        *value = ffi::String(of.properties.deviceName);
        break;
      case kComputeVersion:
        *value = ffi::String(std::to_string(VK_VERSION_MAJOR(of.properties.apiVersion)) + "." +
                             std::to_string(VK_VERSION_MINOR(of.properties.apiVersion)));
        break;
      case kDriverVersion:
        *value = ffi::String(std::to_string(of.properties.driverVersion));
        break;
      default:
        break;
    }
  }

  void* AllocDataSpace(Device device, size_t bytes, size_t, DLDataType) final {
    return At(device.device_id).Allocate(bytes);
  }

  void FreeDataSpace(Device device, void* data) final {
    At(device.device_id).Free(static_cast<VulkanBuffer*>(data));
  }

  void StreamSync(Device device, TVMStreamHandle) final { At(device.device_id).Wait(); }

 protected:
  void CopyDataFromTo(const void* from, size_t from_offset, void* to, size_t to_offset, size_t size,
                      Device from_device, Device to_device, DLDataType, TVMStreamHandle) final {
    if (size == 0) return;
    bool reads = from_device.device_type == kDLVulkan, writes = to_device.device_type == kDLVulkan;
    VulkanQueue& queue = At((reads ? from_device : to_device).device_id);
    if (!reads) {
      const char* host = static_cast<const char*>(from) + from_offset;
      queue.Upload(host, static_cast<VulkanBuffer*>(to), to_offset, size);
      return;
    }
    auto* source = static_cast<const VulkanBuffer*>(from);
    if (writes) {
      auto* target = static_cast<VulkanBuffer*>(to);
      queue.Copy("copy", source->buffer, from_offset, target->buffer, to_offset, size);
    } else {
      queue.Download(source, from_offset, static_cast<char*>(to) + to_offset, size);
    }
  }

 private:
  std::once_flag found_;
  std::vector<std::unique_ptr<VulkanQueue>> queues_;
};

// A kernel that a device's driver has compiled.
struct VulkanKernel {
  VkDescriptorSetLayout sets;
  VkPipelineLayout layout;
  VkPipeline pipeline;
};

class VulkanModule final : public ffi::ModuleObj {
 public:
  explicit VulkanModule(const ffi::Bytes& bytes) : bytes_(bytes) {
    Reader reader(bytes_);
    if (reader.String() != "vulkan") {
      TVM_FFI_THROW(RuntimeError) << "the device module holds no SPIR-V";
    }
    infos_ = ReadKernels(&reader);
    for (uint64_t n = reader.Number<uint64_t>(); n > 0; --n) {
      std::string name = reader.String(), code = reader.String();
      Reader inner(code);
      Code& read = codes_[name];
      read.is_uniform = inner.Number<uint32_t>() & 1;
      read.words.resize(inner.Number<uint64_t>());
      for (uint32_t& word : read.words) word = inner.Number<uint32_t>();
    }
  }

  const char* kind() const final { return "vulkan"; }

  int GetPropertyMask() const final {
    return ffi::Module::kBinarySerializable | ffi::Module::kRunnable;
  }

  ffi::Bytes SaveToBytes() const final { return bytes_; }

  ffi::Optional<ffi::Function> GetFunction(const ffi::String& name) final {
    auto found = infos_.find(std::string(name));
    if (found == infos_.end()) return std::nullopt;
    auto self = ffi::GetRef<ffi::Module>(this);
    const KernelInfo* info = &found->second;
    return ffi::Function::FromPacked([self, this, info](ffi::PackedArgs args, ffi::Any*) {
      Enqueue(*info, reinterpret_cast<const TVMFFIAny*>(args.data()));
    });
  }

 private:
  struct Code {
    bool is_uniform;
    std::vector<uint32_t> words;
  };

  void Enqueue(const KernelInfo& info, const TVMFFIAny* values) {
    int number = VulkanDevices::Current();
    VulkanQueue& queue = VulkanDevices::Global()->At(number);
    std::lock_guard<std::recursive_mutex> guard(queue.Mutex());
    const Code& code = codes_.at(info.name);
    size_t sizes[6];
    info.Launch(values, sizes);
    CheckSizes(info.name, sizes, queue.Device());
    const VkPhysicalDeviceLimits& limits = queue.Device().Limits();
    uint32_t most = limits.maxComputeWorkGroupCount[0];
    const VulkanKernel& kernel = Built(info, queue.Device(), number, sizes[0] > most);
    std::vector<uint64_t> scalars = info.Scalars(values);
    std::vector<VkDescriptorBufferInfo> buffers;
    for (size_t i = 0; i < info.Buffers(); ++i) {
      buffers.push_back({static_cast<VulkanBuffer*>(values[i].v_ptr)->buffer, 0, VK_WHOLE_SIZE});
    }
    if (code.is_uniform) buffers.push_back(queue.Uniform(scalars, info.name));
    VkDescriptorSet set = queue.Descriptors(kernel.sets, info.name);
    Write(queue.Device(), set, buffers, info.Buffers());
    queue.Record(info.name, [&](VkCommandBuffer commands) {
      vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, kernel.pipeline);
      vkCmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, kernel.layout, 0, 1, &set, 0,
                              nullptr);
      if (!code.is_uniform && !scalars.empty()) {
        vkCmdPushConstants(commands, kernel.layout, VK_SHADER_STAGE_COMPUTE_BIT, 0,
                           static_cast<uint32_t>(scalars.size() * sizeof(uint64_t)),
                           scalars.data());
      }
      uint32_t groups[3] = {uint32_t(sizes[0]), uint32_t(sizes[1]), uint32_t(sizes[2])};
      if (groups[0] <= most) {
        vkCmdDispatch(commands, groups[0], groups[1], groups[2]);
        return;
      }
      // Groups that one launch cannot have are launched beside it: none reads what others write.
      for (uint32_t first = 0; first < groups[0]; first += most) {
        uint32_t count = std::min(most, groups[0] - first);
        vkCmdDispatchBase(commands, first, 0, 0, count, groups[1], groups[2]);
      }
    });
  }

  static void Write(const VulkanDevice& device, VkDescriptorSet set,
                    const std::vector<VkDescriptorBufferInfo>& buffers, size_t stored) {
    std::vector<VkWriteDescriptorSet> writes;
    for (uint32_t i = 0; i < buffers.size(); ++i) {
      VkWriteDescriptorSet write{VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET};
      write.dstSet = set;
      write.dstBinding = i;
      write.descriptorCount = 1;
      write.descriptorType = i < stored ? VK_DESCRIPTOR_TYPE_STORAGE_BUFFER
                                        : VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER;
      write.pBufferInfo = &buffers[i];
      writes.push_back(write);
    }
    vkUpdateDescriptorSets(device.device, static_cast<uint32_t>(writes.size()), writes.data(), 0,
                           nullptr);
  }

  // A driver may do anything with a launch beyond its limits.
  static void CheckSizes(const std::string& name, const size_t sizes[6], const VulkanDevice& of) {
    const VkPhysicalDeviceLimits& limits = of.Limits();
    size_t items = sizes[3] * sizes[4] * sizes[5];
    bool fits = items <= limits.maxComputeWorkGroupInvocations;
    for (int axis = 0; axis < 3; ++axis) {
      fits = fits && sizes[3 + axis] <= limits.maxComputeWorkGroupSize[axis];
    }
    if (!fits) {
      TVM_FFI_THROW(RuntimeError)
          << "the kernel " << name << " has work-groups of " << sizes[3] << " x " << sizes[4]
          << " x " << sizes[5] << " items: " << of.properties.deviceName << " allows "
          << limits.maxComputeWorkGroupInvocations << " in all and "
          << limits.maxComputeWorkGroupSize[0] << " x " << limits.maxComputeWorkGroupSize[1]
          << " x " << limits.maxComputeWorkGroupSize[2];
    }
    for (int axis : {1, 2}) {
      if (sizes[axis] > limits.maxComputeWorkGroupCount[axis]) {
        TVM_FFI_THROW(RuntimeError)
            << "the kernel " << name << " has " << sizes[axis] << " work-groups along axis " << axis
            << ": " << of.properties.deviceName << " allows "
            << limits.maxComputeWorkGroupCount[axis];
      }
    }
  }

  // Nor need it refuse a kernel that asks for what the device does not have.
  static void CheckCode(const KernelInfo& info, const Code& code, const VulkanDevice& of) {
    const uint32_t capability = 17;
    size_t at = 5;
    for (; at < code.words.size() && (code.words[at] & 0xffff) == capability; at += 2) {
      for (const VulkanCapability& each : kCapabilities) {
        if (each.number == code.words[at + 1] && !of.Has(each.number)) {
          TVM_FFI_THROW(RuntimeError) << "the kernel " << info.name << " needs " << each.name
                                      << ", which " << of.properties.deviceName << " lacks";
        }
      }
    }
    if (info.Buffers() > of.Limits().maxPerStageDescriptorStorageBuffers) {
      TVM_FFI_THROW(RuntimeError) << "the kernel " << info.name << " has " << info.Buffers()
                                  << " buffers: " << of.properties.deviceName << " allows "
                                  << of.Limits().maxPerStageDescriptorStorageBuffers;
    }
  }

  // The compiled kernel; one that is launched in parts is another.
  const VulkanKernel& Built(const KernelInfo& info, const VulkanDevice& of, int number, bool parts) {
    std::lock_guard<std::mutex> guard(mutex_);
    auto key = std::make_tuple(info.name, number, parts);
    auto found = kernels_.find(key);
    if (found != kernels_.end()) return found->second;
    const Code& code = codes_.at(info.name);
    CheckCode(info, code, of);
    VulkanKernel made{};
    made.sets = Sets(info, code, of);
    made.layout = Layout(info, code, of, made.sets);
    VkShaderModuleCreateInfo shader{VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO};
    shader.codeSize = code.words.size() * sizeof(uint32_t);
    shader.pCode = code.words.data();
    VkComputePipelineCreateInfo pipeline{VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO};
    pipeline.flags = parts ? VK_PIPELINE_CREATE_DISPATCH_BASE : 0;
    pipeline.layout = made.layout;
    pipeline.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
    pipeline.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
    pipeline.stage.pName = info.name.c_str();
    std::string what = "the kernel " + info.name;
    CheckVulkan(vkCreateShaderModule(of.device, &shader, nullptr, &pipeline.stage.module), what);
    VkResult result =
        vkCreateComputePipelines(of.device, VK_NULL_HANDLE, 1, &pipeline, nullptr, &made.pipeline);
    vkDestroyShaderModule(of.device, pipeline.stage.module, nullptr);
    CheckVulkan(result, what);
    return kernels_[key] = made;
  }

  static VkDescriptorSetLayout Sets(const KernelInfo& info, const Code& code,
                                    const VulkanDevice& of) {
    std::vector<VkDescriptorSetLayoutBinding> bindings;
    for (uint32_t i = 0; i < info.Buffers() + code.is_uniform; ++i) {
      bindings.push_back({i,
                          i < info.Buffers() ? VK_DESCRIPTOR_TYPE_STORAGE_BUFFER
                                             : VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER,
                          1, VK_SHADER_STAGE_COMPUTE_BIT, nullptr});
    }
    VkDescriptorSetLayoutCreateInfo info_of{VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO};
    info_of.bindingCount = static_cast<uint32_t>(bindings.size());
    info_of.pBindings = bindings.data();
    VkDescriptorSetLayout sets;
    CheckVulkan(vkCreateDescriptorSetLayout(of.device, &info_of, nullptr, &sets), info.name);
    return sets;
  }

  static VkPipelineLayout Layout(const KernelInfo& info, const Code& code, const VulkanDevice& of,
                                 VkDescriptorSetLayout sets) {
    size_t bytes = (info.arguments.size() - info.Buffers()) * sizeof(uint64_t);
    VkPushConstantRange pushed{VK_SHADER_STAGE_COMPUTE_BIT, 0, static_cast<uint32_t>(bytes)};
    VkPipelineLayoutCreateInfo layout{VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO};
    layout.setLayoutCount = 1;
    layout.pSetLayouts = &sets;
    layout.pushConstantRangeCount = bytes > 0 && !code.is_uniform;
    layout.pPushConstantRanges = &pushed;
    VkPipelineLayout made;
    CheckVulkan(vkCreatePipelineLayout(of.device, &layout, nullptr, &made), info.name);
    return made;
  }

  ffi::Bytes bytes_;
  std::map<std::string, KernelInfo> infos_;
  std::map<std::string, Code> codes_;
  std::map<std::tuple<std::string, int, bool>, VulkanKernel> kernels_;
  std::mutex mutex_;
};

ffi::Module LoadVulkan(const ffi::Bytes& bytes) {
  return ffi::Module(ffi::make_object<VulkanModule>(bytes));
}

TVM_FFI_STATIC_INIT_BLOCK() {
  ffi::reflection::GlobalDef()
      .def_packed("device_api.vulkan",
                  [](ffi::PackedArgs, ffi::Any* result) {
                    *result = static_cast<void*>(VulkanDevices::Global());
                  })
      .def("ffi.Module.load_from_bytes.vulkan", LoadVulkan)
      .def("odtc.vulkan.watch",
           [](bool on) {
             for (const auto& each : VulkanDevices::Global()->All()) each->Watch(on);
           })
      .def("odtc.vulkan.count_watched",
           [] {
             int64_t count = 0;
             for (const auto& each : VulkanDevices::Global()->All()) count += each->CountWatched();
             return count;
           })
      .def("odtc.vulkan.take_watched",
           [] {
             std::string lines;
             for (const auto& each : VulkanDevices::Global()->All()) lines += each->TakeWatched();
             return ffi::String(lines);
           })
      .def("odtc.vulkan.devices", [] {
        ffi::Array<ffi::String> names;
        for (const auto& each : VulkanDevices::Global()->All()) {
          names.push_back(each->Device().properties.deviceName);
        }
        return names;
      });
}

}  // namespace odtc
