// TVM's device interface and module loader for OpenCL, which the wheel of TVM does not have.
#include "opencl_devices.h"

namespace odtc {

class OpenCLModule final : public ffi::ModuleObj {
 public:
  explicit OpenCLModule(const ffi::Bytes& bytes) : bytes_(bytes) {
    Reader reader(bytes_);
    if (reader.String() != "cl") {
      TVM_FFI_THROW(RuntimeError) << "the device module holds no OpenCL source";
    }
    infos_ = ReadKernels(&reader);
    source_ = reader.String();
    const std::string mark = "// Function: ";
    for (size_t start = source_.find(mark); start != std::string::npos;) {
      size_t line = source_.find('\n', start), next = source_.find(mark, line);
      size_t name = start + mark.size();
      parts_[source_.substr(name, line - name)] = source_.substr(line + 1, next - line - 1);
      start = next;
    }
  }

  const char* kind() const final { return "opencl"; }

  int GetPropertyMask() const final {
    return ffi::Module::kBinarySerializable | ffi::Module::kRunnable;
  }

  ffi::Bytes SaveToBytes() const final { return bytes_; }

  ffi::String InspectSource(const ffi::String&) const final { return source_; }

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
  void Enqueue(const KernelInfo& info, const TVMFFIAny* values) {
    int number = OpenCLDevices::Current();
    const OpenCLDevice& device = OpenCLDevices::Global()->At(number);
    std::lock_guard<std::mutex> guard(mutex_);  // a kernel's arguments belong to one thread
    cl_kernel kernel = Built(info.name, number);
    for (size_t i = 0; i < info.arguments.size(); ++i) {
      Check(SetArgument(kernel, static_cast<cl_uint>(i), info.arguments[i], values[i]), info.name);
    }
    size_t sizes[6];
    info.Launch(values, sizes);
    size_t items[3] = {sizes[0] * sizes[3], sizes[1] * sizes[4], sizes[2] * sizes[5]};
    Check(clEnqueueNDRangeKernel(device.queue, kernel, 3, nullptr, items, sizes + 3, 0, nullptr,
                                 OpenCLDevices::Global()->Watching(info.name)),
          info.name);
  }

  static cl_int SetArgument(cl_kernel kernel, cl_uint at, DLDataType type, const TVMFFIAny& value) {
    if (type.code == kDLOpaqueHandle) {
      cl_mem buffer = BufferOf(value.v_ptr);
      return clSetKernelArg(kernel, at, sizeof buffer, &buffer);
    }
    uint64_t number = 0;
    KernelInfo::Scalar(type, value, &number);
    return clSetKernelArg(kernel, at, type.bits / 8, &number);
  }

  // The driver's message about it would blame the source, which is not at fault.
  static void CheckHalf(const std::string& name, const std::string& source,
                        const OpenCLDevice& device) {
    const std::string extension = "cl_khr_fp16";
    if (source.find(extension) != std::string::npos &&
        device.Text(CL_DEVICE_EXTENSIONS).find(extension) == std::string::npos) {
      TVM_FFI_THROW(RuntimeError) << "the kernel " << name << " needs arithmetic with float16, which "
                                  << device.Text(CL_DEVICE_NAME) << " lacks";
    }
  }

  cl_kernel Built(const std::string& name, int number) {
    cl_kernel& kernel = kernels_[{name, number}];
    if (kernel) return kernel;
    const OpenCLDevice& device = OpenCLDevices::Global()->At(number);
    const std::string& source = parts_.at(name);
    CheckHalf(name, source, device);
    const char* text = source.c_str();
    size_t size = source.size();
    cl_int code = CL_SUCCESS;
    cl_program program = clCreateProgramWithSource(device.context, 1, &text, &size, &code);
    Check(code, name);
    code = clBuildProgram(program, 1, &device.id, "", nullptr, nullptr);
    if (code != CL_SUCCESS) {
      clGetProgramBuildInfo(program, device.id, CL_PROGRAM_BUILD_LOG, 0, nullptr, &size);
      std::string log(size, '\0');
      clGetProgramBuildInfo(program, device.id, CL_PROGRAM_BUILD_LOG, size, log.data(), nullptr);
      TVM_FFI_THROW(RuntimeError) << "the kernel " << name << ": " << ErrorName(code) << "\n"
                                  << log.c_str();
    }
    kernel = clCreateKernel(program, name.c_str(), &code);
    Check(code, name);
    return kernel;
  }

  ffi::Bytes bytes_;
  std::string source_;
  std::map<std::string, KernelInfo> infos_;
  std::map<std::string, std::string> parts_;
  std::map<std::pair<std::string, int>, cl_kernel> kernels_;
  std::mutex mutex_;
};

ffi::Module Load(const ffi::Bytes& bytes) {
  return ffi::Module(ffi::make_object<OpenCLModule>(bytes));
}

TVM_FFI_STATIC_INIT_BLOCK() {
  ffi::reflection::GlobalDef()
      .def_packed("device_api.opencl",
                  [](ffi::PackedArgs, ffi::Any* result) {
                    *result = static_cast<void*>(OpenCLDevices::Global());
                  })
      .def("ffi.Module.load_from_bytes.opencl", Load)
      .def("odtc.opencl.upload",
           [](const ffi::Tensor& to, int64_t from, int64_t size) {
             OpenCLDevices::Global()->Upload(*to.GetDLTensorPtr(), reinterpret_cast<const void*>(from),
                                             static_cast<size_t>(size));
           })
      .def("odtc.opencl.watch", [](bool on) { OpenCLDevices::Global()->Watch(on); })
      .def("odtc.opencl.count_watched", [] { return OpenCLDevices::Global()->CountWatched(); })
      .def("odtc.opencl.take_watched",
           [] { return ffi::String(OpenCLDevices::Global()->TakeWatched()); })
      .def("odtc.opencl.devices", [] {
        ffi::Array<ffi::String> names;
        for (const OpenCLDevice& each : OpenCLDevices::Global()->All()) {
          names.push_back(each.Text(CL_DEVICE_NAME));
        }
        return names;
      });
}

}  // namespace odtc
