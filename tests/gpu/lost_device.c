// In front of the drivers (LD_PRELOAD): after so many calls, what launches or waits says that the
// device is gone, as a driver does that has given it up.
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

static int is_gone(void) {
  static int calls = 0;
  return ++calls > atoi(getenv("CALLS_BEFORE_LOSS"));
}

static void* real(const char* library, const char* name) {
  return dlsym(dlopen(library, RTLD_LAZY), name);
}

// CL_DEVICE_NOT_AVAILABLE
int clEnqueueNDRangeKernel(void* queue, void* kernel, unsigned axes, const size_t* first,
                           const size_t* global, const size_t* local, unsigned count,
                           const void* events, void* event) {
  int (*launch)(void*, void*, unsigned, const size_t*, const size_t*, const size_t*, unsigned,
                const void*, void*) = real("libOpenCL.so.1", "clEnqueueNDRangeKernel");
  if (is_gone()) return -2;
  return launch(queue, kernel, axes, first, global, local, count, events, event);
}

// VK_ERROR_DEVICE_LOST
int vkWaitForFences(void* device, uint32_t count, const void* fences, uint32_t all, uint64_t most) {
  int (*wait)(void*, uint32_t, const void*, uint32_t, uint64_t) =
      real("libvulkan.so.1", "vkWaitForFences");
  int code = wait(device, count, fences, all, most);
  return is_gone() ? -4 : code;
}
