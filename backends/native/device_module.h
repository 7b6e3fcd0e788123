// A device module as TVM 0.27 writes it into a library, and how its kernels are launched.
//
// Little endian; a string is its length as u64 and its bytes:
//
//   opencl:  str "cl" | kernels | str source, each kernel after a line "// Function: NAME"
//   vulkan:  str "vulkan" | kernels | u64 n, n x (str key, str {u32 flags, u64 n, n x u32 SPIR-V});
//            flag 1: scalars lie in a uniform buffer after the others
//   kernels: u64 n, n x (str key, str name, u64 n, n x {u8 code, u8 bits, u16 lanes},
//            u64 n, n x str tag, u64 n, n x i32 unused)
#pragma once

#include <tvm/ffi/cast.h>
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/reflection/registry.h>
#include <tvm/ffi/string.h>
#include <tvm/runtime/device_api.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <vector>

namespace odtc {

namespace ffi = tvm::ffi;

class Reader {
 public:
  // The bytes have to outlive the reader.
  explicit Reader(const ffi::Bytes& bytes)
      : at_(bytes.data()), end_(bytes.data() + bytes.size()) {}
  explicit Reader(const std::string& bytes)
      : at_(bytes.data()), end_(bytes.data() + bytes.size()) {}

  template <typename T>
  T Number() {
    T value;
    std::memcpy(&value, Take(sizeof value), sizeof value);
    return value;
  }

  std::string String() {
    uint64_t size = Number<uint64_t>();
    return std::string(Take(size), size);
  }

 private:
  const char* Take(uint64_t size) {
    if (static_cast<uint64_t>(end_ - at_) < size) {
      TVM_FFI_THROW(RuntimeError) << "the device module ends too early";
    }
    const char* taken = at_;
    at_ += size;
    return taken;
  }

  const char* at_;
  const char* end_;
};

// What is known of a kernel: the types of its arguments, and what the launch sizes after them mean.
struct KernelInfo {
  std::string name;
  std::vector<DLDataType> arguments;
  std::vector<int> launch;  // 0 to 2: work-groups along that axis; 3 to 5: work-items of one

  static KernelInfo Read(Reader* reader) {
    KernelInfo info;
    info.name = reader->String();
    for (uint64_t n = reader->Number<uint64_t>(); n > 0; --n) {
      DLDataType type;
      type.code = reader->Number<uint8_t>();
      type.bits = reader->Number<uint8_t>();
      type.lanes = reader->Number<uint16_t>();
      info.arguments.push_back(type);
    }
    for (uint64_t n = reader->Number<uint64_t>(); n > 0; --n) {
      info.launch.push_back(Axis(info.name, reader->String()));
    }
    for (uint64_t n = reader->Number<uint64_t>(); n > 0; --n) {
      reader->Number<int32_t>();
    }
    return info;
  }

  // Buffers, which come before other arguments.
  size_t Buffers() const {
    return std::count_if(arguments.begin(), arguments.end(), [](const DLDataType& each) {
      return each.code == kDLOpaqueHandle;
    });
  }

  // Values of the other arguments, each at the beginning of 8 bytes.
  std::vector<uint64_t> Scalars(const TVMFFIAny* values) const {
    std::vector<uint64_t> scalars;
    for (size_t i = Buffers(); i < arguments.size(); ++i) {
      scalars.push_back(0);
      Scalar(arguments[i], values[i], &scalars.back());
    }
    return scalars;
  }

  // Writes a number as its type says.
  static void Scalar(DLDataType type, const TVMFFIAny& value, void* to) {
    if (type.code == kDLFloat && type.bits == 32) {
      float number = static_cast<float>(value.v_float64);
      std::memcpy(to, &number, sizeof number);
    } else {
      std::memcpy(to, &value.v_int64, type.bits / 8);
    }
  }

  // Sizes of the launch: work-groups along three axes, then work-items of each group.
  void Launch(const TVMFFIAny* values, size_t sizes[6]) const {
    std::fill(sizes, sizes + 6, size_t(1));
    for (size_t i = 0; i < launch.size(); ++i) {
      sizes[launch[i]] = static_cast<size_t>(values[arguments.size() + i].v_int64);
    }
  }

 private:
  static int Axis(const std::string& kernel, const std::string& tag) {
    static const std::map<std::string, int> axes = {
        {"blockIdx.x", 0},  {"blockIdx.y", 1},  {"blockIdx.z", 2},
        {"threadIdx.x", 3}, {"threadIdx.y", 4}, {"threadIdx.z", 5}};
    auto found = axes.find(tag);
    if (found == axes.end()) {
      TVM_FFI_THROW(RuntimeError) << "the kernel " << kernel << " wants " << tag
                                  << ", which this runtime cannot launch";
    }
    return found->second;
  }
};

inline std::map<std::string, KernelInfo> ReadKernels(Reader* reader) {
  std::map<std::string, KernelInfo> kernels;
  for (uint64_t n = reader->Number<uint64_t>(); n > 0; --n) {
    std::string key = reader->String();
    kernels.emplace(key, KernelInfo::Read(reader));
  }
  return kernels;
}

}  // namespace odtc
