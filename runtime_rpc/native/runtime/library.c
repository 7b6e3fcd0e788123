#include "library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"
#include "pool.h"

/* Where TVM's code has the address of what it calls; the loader of a library fills it in. */
static const char LAUNCH[] = "__TVMBackendParallelLaunch";
/* Other such places, which kernels of steps have no use for: nobody would fill them in. */
static const char *const UNKNOWN[] = {
    "__TVMBackendParallelBarrier", "__TVMBackendAllocWorkspace",  "__TVMBackendFreeWorkspace",
    "__TVMFFIFunctionCall",        "__TVMBackendGetFuncFromEnv",  "__TVMFFIErrorSetRaisedFromCStr",
    "__TVMFFIEnvModLookupFromImports", "__TVMFFIErrorSetRaisedFromCStrParts",
};

static odtc_code check_identity(const char *path, const uint8_t digest[ODTC_SHA256_BYTES],
                                odtc_problem *problem) {
  odtc_pages file;
  const uint8_t *id;
  size_t bytes;
  if (odtc_map_file(path, &file, problem)) return problem->code;
  odtc_code code = odtc_build_id(file.at, file.bytes, &id, &bytes, problem);
  if (!code && (bytes != ODTC_SHA256_BYTES || memcmp(id, digest, bytes)))
    code = odtc_fail(problem, ODTC_MISFIT,
                     "%.200s and the program are not of one artifact: its build id is not the "
                     "program's sha256, %02x%02x%02x%02x...",
                     path, digest[0], digest[1], digest[2], digest[3]);
  odtc_unmap(&file);
  return code;
}

/* Lets kernels run their tasks in the pool of the trainer that calls them. */
static odtc_code connect(const char *path, odtc_library *library, odtc_problem *problem) {
  for (size_t n = 0; n < sizeof UNKNOWN / sizeof *UNKNOWN; ++n)
    if (dlsym(library->handle, UNKNOWN[n]))
      return odtc_fail(problem, ODTC_UNSUPPORTED, "the kernels of %.200s call %s", path,
                       UNKNOWN[n] + 2);
  void **place = dlsym(library->handle, LAUNCH);
  if (!place) return ODTC_OK;
  void *launch = (void *)odtc_pool_launch;
  void *found = __atomic_load_n(place, __ATOMIC_SEQ_CST);
  if (found && found != launch)
    return odtc_fail(problem, ODTC_MISFIT,
                     "another runtime of this process runs the kernels of %.200s: give it a copy",
                     path);
  __atomic_store_n(place, launch, __ATOMIC_SEQ_CST);
  return ODTC_OK;
}

odtc_code odtc_library_open(const char *path, const uint8_t digest[ODTC_SHA256_BYTES],
                            const odtc_program *program, odtc_library *library,
                            odtc_problem *problem) {
  char beside[1024];
  if (check_identity(path, digest, problem)) return problem->code;
  /* A name without a folder would be looked for among the system's libraries. */
  int length = snprintf(beside, sizeof beside, "%s%s", strchr(path, '/') ? "" : "./", path);
  if (length < 0 || (size_t)length >= sizeof beside)
    return odtc_fail(problem, ODTC_USAGE, "the path of the library is too long");
  if (!(library->handle = dlopen(beside, RTLD_NOW | RTLD_LOCAL)))
    return odtc_fail(problem, ODTC_MISFIT, "the library cannot be loaded: %.300s", dlerror());
  library->kernels = calloc(program->kernel_count + 1, sizeof *library->kernels);
  if (!library->kernels)
    return odtc_fail(problem, ODTC_NO_MEMORY, "there is no memory for %zu kernels",
                     program->kernel_count);
  for (size_t n = 0; n < program->kernel_count; ++n) {
    const char *name = program->text + program->kernels[n];
    library->kernels[n] = (odtc_kernel)dlsym(library->handle, name);
    if (!library->kernels[n])
      return odtc_fail(problem, ODTC_MISFIT, "%.200s has no kernel %.100s", path, name);
  }
  return connect(path, library, problem);
}

void odtc_library_close(odtc_library *library) {
  if (library->handle) dlclose(library->handle);
  free(library->kernels);
  *library = (odtc_library){0};
}
