// In front of OpenCL's library (LD_PRELOAD): a device that has no images, or by IMAGES=small such of no pixel.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { IMAGE_SUPPORT = 0x1016, IMAGE_MAX_BUFFER_SIZE = 0x1040 };

static void* found(void* library, const char* name) {
  static void* (*look_up)(void*, const char*);
  const char* const versions[] = {"GLIBC_2.2.5", "GLIBC_2.17", "GLIBC_2.34"};
  for (int n = 0; !look_up && n < 3; ++n) look_up = dlvsym(RTLD_NEXT, "dlsym", versions[n]);
  return look_up(library, name);
}

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
