/* libOpenCL.so: where systems and vendors of phones have it. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cl.h"

static const char *const NAMES[] = {
    "libOpenCL.so.1",       /* Linux: the loader of all vendors' drivers */
    "libOpenCL.so",         /* Android: where the vendor makes it public, to apps that ask for it */
    "libOpenCL-pixel.so",   /* Android on Pixels */
    "libOpenCL-car.so",     /* Android in cars */
#ifdef __ANDROID__          /* programs that adb starts: these paths are outside an app's linker namespace */
    "/vendor/lib64/libOpenCL.so",
    "/vendor/lib64/egl/libGLES_mali.so",
    "/system/vendor/lib64/libOpenCL.so",
    "/system/lib64/libOpenCL.so",
#endif
};

static struct {
  pthread_mutex_t lock;
  odtc_cl functions;
  int is_there;
} found = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Whether all functions are there. */
static int take_functions(void *library, odtc_cl *cl, const char **missing) {
#define X(result, name, arguments)          \
  *(void **)&cl->name = dlsym(library, #name); \
  if (!cl->name) return *missing = #name, 0;
  ODTC_CL_FUNCTIONS(X)
#undef X
  return 1;
}

static void find(odtc_problem *problem) {
  char why[300] = "";
  for (size_t n = 0; n < sizeof NAMES / sizeof *NAMES; ++n) {
    const char *missing = NULL;
    void *library = dlopen(NAMES[n], RTLD_NOW | RTLD_LOCAL);
    if (!library) {
      /* A driver that is there and cannot be opened says more than one that is not. */
      const char *said = dlerror();
      if (!n || (NAMES[n][0] == '/' && !access(NAMES[n], F_OK))) snprintf(why, sizeof why, "%s", said);
      continue;
    }
    if ((found.is_there = take_functions(library, &found.functions, &missing))) return;
    snprintf(why, sizeof why, "%s has no %s: OpenCL 1.2 is needed", NAMES[n], missing);
    dlclose(library);
  }
  odtc_fail(problem, ODTC_DEVICE, "there is no OpenCL here: %.300s", why);
}

const odtc_cl *odtc_cl_functions(odtc_problem *problem) {
  pthread_mutex_lock(&found.lock);
  if (!found.is_there) find(problem);
  int is_there = found.is_there;
  pthread_mutex_unlock(&found.lock);
  return is_there ? &found.functions : NULL;
}
