// The bytes of a device module as a module of TVM's, which writes them into a library. TVM's wheel has none
// for Vulkan, and its modules are C++ objects. It runs nothing: the native runtime reads what it wrote.
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/reflection/registry.h>

namespace {

namespace ffi = tvm::ffi;

class ModuleOfBytes final : public ffi::ModuleObj {
 public:
  explicit ModuleOfBytes(const ffi::Bytes& bytes) : bytes_(bytes) {}

  const char* kind() const final { return "vulkan"; }
  int GetPropertyMask() const final { return ffi::Module::kBinarySerializable; }
  ffi::Bytes SaveToBytes() const final { return bytes_; }
  ffi::Optional<ffi::Function> GetFunction(const ffi::String&) final { return std::nullopt; }

 private:
  ffi::Bytes bytes_;
};

TVM_FFI_STATIC_INIT_BLOCK() {
  tvm::ffi::reflection::GlobalDef().def("odtc.vulkan_module", [](const ffi::Bytes& bytes) {
    return ffi::Module(ffi::make_object<ModuleOfBytes>(bytes));
  });
}

}  // namespace
