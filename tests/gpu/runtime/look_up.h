// How a library of LD_PRELOAD that has a `dlsym` of its own reaches the real one.
#ifndef ODTC_TESTS_LOOK_UP_H
#define ODTC_TESTS_LOOK_UP_H

#include <dlfcn.h>

static void* found(void* library, const char* name) {
  static void* (*look_up)(void*, const char*);
  const char* const versions[] = {"GLIBC_2.2.5", "GLIBC_2.17", "GLIBC_2.34"};
  for (int n = 0; !look_up && n < 3; ++n) look_up = dlvsym(RTLD_NEXT, "dlsym", versions[n]);
  return look_up(library, name);
}

#endif
