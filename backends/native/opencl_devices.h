// OpenCL's devices, as TVM's device interface.
//
// Devices of all platforms are listed, GPUs first. Each has one queue, in order, so that kernels
// and copies need no events, and a second one for uploads into buffers that no kernel in the first
// one reads. Calls return when they are queued; a copy to or from the host waits.
#pragma once
#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <tvm/ffi/container/tensor.h>

#include <deque>
#include <memory>
#include <mutex>

#include "device_module.h"

namespace odtc {

using tvm::Device;

struct CodeName {
  cl_int code;
  const char* name;
};

inline const CodeName kErrors[] = {
    {CL_DEVICE_NOT_AVAILABLE, "the device is not available"},
    {CL_MEM_OBJECT_ALLOCATION_FAILURE, "out of device memory"},
    {CL_OUT_OF_RESOURCES, "out of device resources"},
    {CL_OUT_OF_HOST_MEMORY, "out of host memory"},
    {CL_BUILD_PROGRAM_FAILURE, "the driver's compiler failed"},
    {CL_INVALID_BUFFER_SIZE, "a buffer is larger than the device allows"},
    {CL_INVALID_KERNEL_ARGS, "a kernel lacks arguments"},
    {CL_INVALID_WORK_GROUP_SIZE, "a work-group is larger than the device allows"},
    {CL_INVALID_WORK_ITEM_SIZE, "a work-group has more items along an axis than the device allows"},
};

inline std::string ErrorName(cl_int code) {
  for (const CodeName& each : kErrors) {
    if (each.code == code) {
      return std::string(each.name) + " (OpenCL error " + std::to_string(code) + ")";
    }
  }
  return "OpenCL error " + std::to_string(code);
}

inline void Check(cl_int code, const std::string& what) {
  if (code != CL_SUCCESS) {
    TVM_FFI_THROW(RuntimeError) << what << ": " << ErrorName(code);
  }
}

struct OpenCLDevice {
  cl_device_id id;
  cl_context context;
  cl_command_queue queue, uploads;

  template <typename T>
  T Number(cl_device_info key) const {
    T value{};
    Check(clGetDeviceInfo(id, key, sizeof value, &value, nullptr), "a question to the device");
    return value;
  }

  std::string Text(cl_device_info key) const {
    size_t size = 0;
    Check(clGetDeviceInfo(id, key, 0, nullptr, &size), "a question to the device");
    std::string text(size, '\0');
    Check(clGetDeviceInfo(id, key, size, text.data(), nullptr), "a question to the device");
    return text.c_str();
  }
};

struct Memory {
  cl_mem buffer;
};

// What ran on a device while it was watched: a kernel, or a copy.
struct Watched {
  std::string name;
  cl_event event;
};

inline cl_mem BufferOf(const void* data) { return static_cast<const Memory*>(data)->buffer; }

class OpenCLDevices final : public tvm::runtime::DeviceAPI {
 public:
  static OpenCLDevices* Global() {
    static OpenCLDevices* devices = new OpenCLDevices();
    return devices;
  }

  static int& Current() {
    static thread_local int number = 0;
    return number;
  }

  const std::vector<OpenCLDevice>& All() {
    std::call_once(found_, [this] { Find(); });
    return devices_;
  }

  const OpenCLDevice& At(int number) {
    if (number < 0 || number >= static_cast<int>(All().size())) {
      TVM_FFI_THROW(RuntimeError) << "there is no OpenCL device " << number << ": this machine has "
                                  << All().size();
    }
    return All()[number];
  }

  // Starts or stops watching what runs; waits for what is queued.
  void Watch(bool on) {
    All();
    for (OpenCLDevice& each : devices_) {
      for (cl_command_queue* queue : {&each.queue, &each.uploads}) {
        clFinish(*queue);
        clReleaseCommandQueue(*queue);
        cl_int code = CL_SUCCESS;
        *queue = clCreateCommandQueue(each.context, each.id, on ? CL_QUEUE_PROFILING_ENABLE : 0,
                                      &code);
        Check(code, "a queue");
      }
    }
    is_watching_ = on;
  }

  // Where to put the event of a command about to be queued; null unless commands are watched.
  cl_event* Watching(const std::string& name) {
    if (!is_watching_) return nullptr;
    std::lock_guard<std::mutex> guard(watched_mutex_);  // uploads are another thread's
    watched_.push_back({name, nullptr});
    return &watched_.back().event;
  }

  // Commands queued since the last call of `TakeWatched`, while they were watched.
  int64_t CountWatched() {
    std::lock_guard<std::mutex> guard(watched_mutex_);
    return static_cast<int64_t>(watched_.size());
  }

  // What ran since the last call, as "name start end" in nanoseconds, one to a line.
  std::string TakeWatched() {
    std::lock_guard<std::mutex> guard(watched_mutex_);
    std::string lines;
    for (const Watched& each : watched_) {
      if (!each.event) continue;
      clWaitForEvents(1, &each.event);
      cl_ulong start = 0, end = 0;
      clGetEventProfilingInfo(each.event, CL_PROFILING_COMMAND_START, sizeof start, &start, nullptr);
      clGetEventProfilingInfo(each.event, CL_PROFILING_COMMAND_END, sizeof end, &end, nullptr);
      clReleaseEvent(each.event);
      lines += each.name + " " + std::to_string(start) + " " + std::to_string(end) + "\n";
    }
    watched_.clear();
    return lines;
  }

  // Fills a tensor that no queued kernel reads, while the kernels run.
  void Upload(const DLTensor& to, const void* from, size_t size) {
    if (to.device.device_type != kDLOpenCL || ffi::GetDataSize(to) != size) {
      TVM_FFI_THROW(ValueError) << size << " bytes are no elements of a tensor of "
                                << ffi::GetDataSize(to) << " bytes on an OpenCL device";
    }
    const OpenCLDevice& device = At(to.device.device_id);
    clFlush(device.queue);  // else a driver may begin with the kernels only when they are waited for
    if (size == 0) return;
    Check(clEnqueueWriteBuffer(device.uploads, BufferOf(to.data), CL_TRUE, to.byte_offset, size,
                               from, 0, nullptr, Watching("upload")),
          "an upload of " + std::to_string(size) + " bytes");
  }

  void SetDevice(Device device) final { Current() = device.device_id; }

  void GetAttr(Device device, tvm::runtime::DeviceAttrKind kind, ffi::Any* value) final {
    using namespace tvm::runtime;
    int number = device.device_id;
    if (kind == kExist) {
      *value = int64_t(number >= 0 && number < static_cast<int>(All().size()));
      return;
    }
    const OpenCLDevice& of = At(number);
    switch (kind) {
      case kMaxThreadsPerBlock:
        *value = int64_t(of.Number<size_t>(CL_DEVICE_MAX_WORK_GROUP_SIZE));
        break;
      case kWarpSize:
        *value = int64_t(1);
        break;
      case kMaxSharedMemoryPerBlock:
        *value = int64_t(of.Number<cl_ulong>(CL_DEVICE_LOCAL_MEM_SIZE));
        break;
      case kDeviceName:
        *value = ffi::String(of.Text(CL_DEVICE_NAME));
        break;
      case kComputeVersion:
        *value = ffi::String(of.Text(CL_DEVICE_VERSION));
        break;
      case kDriverVersion:
        *value = ffi::String(of.Text(CL_DRIVER_VERSION));
        break;
      case kMultiProcessorCount:
        *value = int64_t(of.Number<cl_uint>(CL_DEVICE_MAX_COMPUTE_UNITS));
        break;
      case kTotalGlobalMemory:
        *value = int64_t(of.Number<cl_ulong>(CL_DEVICE_GLOBAL_MEM_SIZE));
        break;
      default:
        break;
    }
  }

  void* AllocDataSpace(Device device, size_t bytes, size_t, DLDataType) final {
    cl_int code = CL_SUCCESS;
    size_t size = std::max<size_t>(bytes, 1);
    cl_mem buffer =
        clCreateBuffer(At(device.device_id).context, CL_MEM_READ_WRITE, size, nullptr, &code);
    Check(code, "a buffer of " + std::to_string(bytes) + " bytes");
    return new Memory{buffer};
  }

  void FreeDataSpace(Device, void* data) final {
    // A buffer goes when the last command that uses it has run.
    clReleaseMemObject(BufferOf(data));
    delete static_cast<Memory*>(data);
  }

  void StreamSync(Device device, TVMStreamHandle) final {
    Check(clFinish(At(device.device_id).queue), "waiting for the device");
  }

 protected:
  void CopyDataFromTo(const void* from, size_t from_offset, void* to, size_t to_offset, size_t size,
                      Device from_device, Device to_device, DLDataType, TVMStreamHandle) final {
    if (size == 0) return;
    bool reads = from_device.device_type == kDLOpenCL, writes = to_device.device_type == kDLOpenCL;
    cl_command_queue queue = At((reads ? from_device : to_device).device_id).queue;
    cl_int code;
    if (reads && writes) {
      code = clEnqueueCopyBuffer(queue, BufferOf(from), BufferOf(to), from_offset, to_offset, size,
                                 0, nullptr, Watching("copy"));
    } else if (reads) {
      code = clEnqueueReadBuffer(queue, BufferOf(from), CL_TRUE, from_offset, size,
                                 static_cast<char*>(to) + to_offset, 0, nullptr,
                                 Watching("download"));
    } else {
      code = clEnqueueWriteBuffer(queue, BufferOf(to), CL_TRUE, to_offset, size,
                                  static_cast<const char*>(from) + from_offset, 0, nullptr,
                                  Watching("upload"));
    }
    Check(code, "a copy of " + std::to_string(size) + " bytes");
  }

 private:
  void Find() {
    cl_uint count = 0;
    if (clGetPlatformIDs(0, nullptr, &count) != CL_SUCCESS) return;
    std::vector<cl_platform_id> platforms(count);
    clGetPlatformIDs(count, platforms.data(), nullptr);
    for (bool gpus : {true, false}) {
      for (cl_platform_id platform : platforms) Add(platform, gpus);
    }
  }

  void Add(cl_platform_id platform, bool gpus) {
    cl_uint count = 0;
    if (clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &count) != CL_SUCCESS) return;
    std::vector<cl_device_id> found(count);
    clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, count, found.data(), nullptr);
    for (cl_device_id id : found) {
      OpenCLDevice device{id, nullptr, nullptr, nullptr};
      bool is_gpu = device.Number<cl_device_type>(CL_DEVICE_TYPE) & CL_DEVICE_TYPE_GPU;
      if (is_gpu != gpus) continue;
      cl_int code = CL_SUCCESS;
      device.context = clCreateContext(nullptr, 1, &id, nullptr, nullptr, &code);
      if (code != CL_SUCCESS) continue;  // a device that cannot be used, as one that is taken
      device.queue = clCreateCommandQueue(device.context, id, 0, &code);
      if (code != CL_SUCCESS) continue;
      device.uploads = clCreateCommandQueue(device.context, id, 0, &code);
      if (code == CL_SUCCESS) devices_.push_back(device);
    }
  }

  std::once_flag found_;
  std::vector<OpenCLDevice> devices_;
  std::deque<Watched> watched_;  // an element stays where it is, since the driver writes its event
  std::mutex watched_mutex_;
  bool is_watching_ = false;
};

}  // namespace odtc
