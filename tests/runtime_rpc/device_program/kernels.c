/* Kernels as TVM's code generator would call them: that double, in tasks, and that do not do what they should. */
#include <stddef.h>
#include <unistd.h>

#include "kernel_abi.h"

#ifndef FACTOR
#define FACTOR 2
#endif

int (*__TVMBackendParallelLaunch)(odtc_task task, void *data, int tasks) = NULL;

static odtc_kernel_tensor *tensor(const odtc_kernel_value *arguments, int n) {
  return arguments[n].value.pointer;
}

static int64_t count_of(const odtc_kernel_tensor *t) {
  int64_t count = 1;
  for (int n = 0; n < t->rank; ++n) count *= t->shape[n];
  return count;
}

int __tvm_ffi_kernel(void *self, const odtc_kernel_value *arguments, int32_t count,
                     odtc_kernel_value *result) {
  (void)self, (void)count, (void)result;
  const float *from = tensor(arguments, 0)->data;
  float *to = tensor(arguments, 1)->data;
  for (int64_t n = 0; n < count_of(tensor(arguments, 1)); ++n) to[n] = FACTOR * from[n];
  return 0;
}

/* Where each task notes that it ran, and of how many it was one. */
static int note(int number, odtc_task_group *group, void *data) {
  ((int32_t *)data)[number] = group->tasks;
  return 0;
}

int __tvm_ffi_tasks(void *self, const odtc_kernel_value *arguments, int32_t count,
                    odtc_kernel_value *result) {
  (void)self, (void)count, (void)result;
  return __TVMBackendParallelLaunch(note, tensor(arguments, 0)->data, 0);
}

/* Adds two numbers to an element. */
int __tvm_ffi_add(void *self, const odtc_kernel_value *arguments, int32_t count,
                  odtc_kernel_value *result) {
  (void)self, (void)result;
  if (count != 3) return -1;
  *(float *)tensor(arguments, 0)->data +=
      (float)arguments[1].value.number + (float)arguments[2].value.real;
  return 0;
}

int __tvm_ffi_fails(void *self, const odtc_kernel_value *arguments, int32_t count,
                    odtc_kernel_value *result) {
  (void)self, (void)arguments, (void)count, (void)result;
  return -1;
}
