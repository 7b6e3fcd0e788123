// In front of OpenCL's library (LD_PRELOAD): a device that has no images, or by IMAGES=small such of no pixel.
#define _GNU_SOURCE
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "look_up.h"

enum { IMAGE_SUPPORT = 0x1016, IMAGE_MAX_BUFFER_SIZE = 0x1040 };

void* dlsym(void* library, const char* name) {
  return found(strcmp(name, "clGetDeviceInfo") ? library : RTLD_DEFAULT, name);
}

int clGetDeviceInfo(void* device, uint32_t what, size_t bytes, void* value, size_t* needed) {
  int (*ask)(void*, uint32_t, size_t, void*, size_t*) = found(dlopen("libOpenCL.so.1", RTLD_LAZY), "clGetDeviceInfo");
  int is_small = !strcmp(getenv("IMAGES"), "small");
  int code = ask(device, what, bytes, value, needed);
  if (what == (is_small ? IMAGE_MAX_BUFFER_SIZE : IMAGE_SUPPORT) && value) memset(value, 0, bytes);
  return code;
}
