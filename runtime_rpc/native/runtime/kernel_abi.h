/* How kernels are called: TVM 0.27's code generator, with tvm/ffi/c_api.h, dlpack.h and
   c_backend_api.h, as far as a step needs it. Only these layouts are TVM's; none of its code runs. */
#ifndef ODTC_KERNEL_ABI_H
#define ODTC_KERNEL_ABI_H

#include <stdint.h>

/* A DLTensor. */
typedef struct {
  void *data;
  int32_t device_type, device_id;
  int32_t rank;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t *shape, *strides; /* no strides: it is dense */
  uint64_t byte_offset;
} odtc_kernel_tensor;

/* A TVMFFIAny. */
typedef struct {
  int32_t type;
  uint32_t zero;
  union {
    int64_t number;
    double real;
    void *pointer;
  } value;
} odtc_kernel_value;

enum { ODTC_KERNEL_CPU = 1, ODTC_KERNEL_TENSOR = 7 };

typedef int (*odtc_kernel)(void *self, const odtc_kernel_value *arguments, int32_t count,
                           odtc_kernel_value *result);

/* What a parallel kernel asks to be run, once for each task. */
typedef struct {
  void *sync;
  int32_t tasks;
} odtc_task_group;
typedef int (*odtc_task)(int number, odtc_task_group *group, void *data);

#endif
