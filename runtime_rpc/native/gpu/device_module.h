/* The kernels of a GPU as TVM 0.27 writes them into a library: what each is given, and its code.

   Little endian; a string is its length as u64 and its bytes. `__tvm_ffi__library_bin` of a library is

     u64 bytes of all that follows | u64 n, n x u64 | u64 n, n x u64 | modules, one less than the first n
     module:  str kind, but for "_lib", the library itself, str content
     opencl:  str "cl" | kernels | str source, each kernel after a line "// Function: NAME"
     vulkan:  str "vulkan" | kernels | u64 n, n x (str key, str {u32 flags, u64 n, n x u32 SPIR-V})
     kernels: u64 n, n x (str key, str name, u64 n, n x {u8 code, u8 bits, u16 lanes},
              u64 n, n x str tag, u64 n, n x i32 unused) */
#ifndef ODTC_DEVICE_MODULE_H
#define ODTC_DEVICE_MODULE_H

#include "gpu.h"

/* What the sizes of a launch mean that come after a kernel's arguments: 0 to 2 are work-groups along an axis, 3 to 5
   work-items of a group. */
enum { ODTC_MOST_SIZES = 6 };
typedef struct {
  uint32_t count;
  uint8_t of[ODTC_MOST_SIZES];
} odtc_sizes;

typedef struct {
  const odtc_gpu_interface *interface; /* that the module is for */
  odtc_gpu_kernel *kernels;
  odtc_sizes *sizes; /* of each */
  size_t count;
  void *memory; /* names, types and SPIR-V; OpenCL's source stays where it was read */
} odtc_device_module;

/* Reads the device module of a library's modules, which are checked: they may be of a damaged file. No memory is
   there for longer than these bytes. `odtc_device_module_end` is called in any case. */
odtc_code odtc_device_module_read(const uint8_t *modules, size_t bytes, odtc_device_module *module,
                                  odtc_problem *problem);
void odtc_device_module_end(odtc_device_module *module);

#endif
