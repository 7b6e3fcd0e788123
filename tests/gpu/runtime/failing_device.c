// In front of the drivers (LD_PRELOAD): after so many calls, what launches (OpenCL) or waits (Vulkan)
// fails with a code, such as a driver's that has given the device up. Who is linked with a driver's library finds
// these functions, and who looks them up in it does, too.
#define _GNU_SOURCE
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "look_up.h"

void* dlsym(void* library, const char* name) {
  int is_ours = !strcmp(name, "clEnqueueNDRangeKernel") || !strcmp(name, "vkWaitForFences") ||
                !strcmp(name, "vkGetInstanceProcAddr");
  return found(is_ours ? RTLD_DEFAULT : library, name);
}

static int code_of(const char* code) {
  static int calls = 0;
  return ++calls > atoi(getenv("CALLS_BEFORE")) ? atoi(getenv(code)) : 0;
}

static void* real(const char* library, const char* name) {
  return found(dlopen(library, RTLD_LAZY), name);
}

int clEnqueueNDRangeKernel(void* queue, void* kernel, unsigned axes, const size_t* first,
                           const size_t* global, const size_t* local, unsigned count,
                           const void* events, void* event) {
  int (*launch)(void*, void*, unsigned, const size_t*, const size_t*, const size_t*, unsigned,
                const void*, void*) = real("libOpenCL.so.1", "clEnqueueNDRangeKernel");
  int code = code_of("OPENCL_CODE");
  return code ? code : launch(queue, kernel, axes, first, global, local, count, events, event);
}

int vkWaitForFences(void* device, uint32_t count, const void* fences, uint32_t all, uint64_t most) {
  int (*wait)(void*, uint32_t, const void*, uint32_t, uint64_t) =
      real("libvulkan.so.1", "vkWaitForFences");
  int result = wait(device, count, fences, all, most);
  int code = code_of("VULKAN_CODE");
  return code ? code : result;
}

static void* of_device(void* device, const char* name) {
  void* (*look_up)(void*, const char*) = real("libvulkan.so.1", "vkGetDeviceProcAddr");
  return strcmp(name, "vkWaitForFences") ? look_up(device, name) : (void*)vkWaitForFences;
}

void* vkGetInstanceProcAddr(void* instance, const char* name) {
  void* (*look_up)(void*, const char*) = real("libvulkan.so.1", "vkGetInstanceProcAddr");
  return strcmp(name, "vkGetDeviceProcAddr") ? look_up(instance, name) : (void*)of_device;
}
