#include "library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"
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

static const char TABLE[] = "the table of kernels";

/* Whether kernels are those of the program: `what` is their library, or a table of them. */
static odtc_code check_identity(const char *what, const uint8_t *id, size_t bytes,
                                const uint8_t digest[ODTC_SHA256_BYTES], odtc_problem *problem) {
  if (bytes == ODTC_SHA256_BYTES && !memcmp(id, digest, bytes)) return ODTC_OK;
  return odtc_fail(problem, ODTC_MISFIT,
                   "%.200s and the program are not of one artifact: its build id is not the "
                   "program's sha256, %02x%02x%02x%02x...",
                   what, digest[0], digest[1], digest[2], digest[3]);
}

static odtc_code check_file(const char *path, const uint8_t digest[ODTC_SHA256_BYTES],
                            odtc_problem *problem) {
  odtc_pages file;
  const uint8_t *id;
  size_t bytes;
  if (odtc_map_file(path, &file, problem)) return problem->code;
  odtc_code code = odtc_build_id(file.at, file.bytes, &id, &bytes, problem);
  if (!code) code = check_identity(path, id, bytes, digest, problem);
  odtc_unmap(&file);
  return code;
}

static odtc_code load(const char *name, odtc_library *library, odtc_problem *problem) {
  if ((library->handle = dlopen(name, RTLD_NOW | RTLD_LOCAL))) return ODTC_OK;
  return odtc_fail(problem, ODTC_MISFIT, "the library cannot be loaded: %.300s", dlerror());
}

static odtc_code load_file(const char *path, const uint8_t digest[ODTC_SHA256_BYTES],
                           odtc_library *library, odtc_problem *problem) {
  char beside[1024];
  if (check_file(path, digest, problem)) return odtc_name_file(problem, path);
  /* A name without a folder would be looked for among the system's libraries. */
  int length = snprintf(beside, sizeof beside, "%s%s", strchr(path, '/') ? "" : "./", path);
  if (length < 0 || (size_t)length >= sizeof beside)
    return odtc_fail(problem, ODTC_USAGE, "the path of the library is too long");
  return load(beside, library, problem);
}

/* Lets a kernel, or all of a library, run their tasks in the pool of the trainer that calls them. */
static odtc_code connect(const char *what, void **place, odtc_problem *problem) {
  if (!place) return ODTC_OK;
  void *launch = (void *)odtc_pool_launch;
  void *found = __atomic_load_n(place, __ATOMIC_SEQ_CST);
  if (found && found != launch)
    return odtc_fail(problem, ODTC_MISFIT,
                     "another runtime of this process runs the kernels of %.200s: give it a copy",
                     what);
  __atomic_store_n(place, launch, __ATOMIC_SEQ_CST);
  return ODTC_OK;
}

static odtc_kernel in_library(const odtc_library *library, const char *name) {
  return (odtc_kernel)dlsym(library->handle, name);
}

/* A kernel among those of a table, which are few; NULL if it is none. */
static odtc_kernel in_table(const odtc_kernels *table, const char *name, odtc_problem *problem) {
  for (size_t n = 0; n < table->count; ++n) {
    const struct odtc_named_kernel *kernel = table->kernels + n;
    if (!strcmp(kernel->name, name))
      return connect(TABLE, kernel->launch, problem) ? NULL : (odtc_kernel)(void *)kernel->code;
  }
  return NULL;
}

/* A kernel of a set, whose name has the set's number behind a dot. */
static odtc_code find_kernel(const char *what, const odtc_kernels *table, const char *plain, int set,
                             odtc_library *library, odtc_kernel *found, odtc_problem *problem) {
  char numbered[512];
  snprintf(numbered, sizeof numbered, "%s.%d", plain, set);
  const char *name = set ? numbered : plain;
  *found = table ? in_table(table, name, problem) : in_library(library, name);
  if (problem->code || *found) return problem->code;
  return odtc_fail(problem, ODTC_MISFIT, "%.200s has no kernel %.100s", what, name);
}

static odtc_code find_kernels(const char *what, const odtc_kernels *table,
                              const odtc_program *program, odtc_library *library,
                              odtc_problem *problem) {
  size_t each = program->kernel_count, all = each * (size_t)odtc_count_sets(program);
  library->kernels = calloc(all + 1, sizeof *library->kernels);
  if (!library->kernels)
    return odtc_fail(problem, ODTC_NO_MEMORY, "there is no memory for %zu kernels", all);
  for (size_t n = 0; n < all; ++n)
    if (find_kernel(what, table, program->text + program->kernels[n % each], (int)(n / each), library,
                    library->kernels + n, problem))
      return problem->code;
  return ODTC_OK;
}

/* What a package holds has no file of its own, so that the build id is read where it is loaded. */
static odtc_code check_loaded(const char *name, const uint8_t digest[ODTC_SHA256_BYTES],
                              const odtc_library *library, odtc_problem *problem) {
  const uint8_t *id = NULL;
  size_t bytes = 0;
  if (library->kernels[0]) odtc_loaded_build_id((const void *)library->kernels[0], &id, &bytes);
  return check_identity(name, id, bytes, digest, problem);
}

static odtc_code check_calls(const char *what, const odtc_library *library,
                             odtc_problem *problem) {
  for (size_t n = 0; n < sizeof UNKNOWN / sizeof *UNKNOWN; ++n)
    if (dlsym(library->handle, UNKNOWN[n]))
      return odtc_fail(problem, ODTC_UNSUPPORTED, "the kernels of %.200s call %s", what,
                       UNKNOWN[n] + 2);
  return ODTC_OK;
}

/* Lets the kernels of a library that is loaded be called. */
static odtc_code join(const char *what, const odtc_library *library, odtc_problem *problem) {
  if (check_calls(what, library, problem)) return problem->code;
  return connect(what, dlsym(library->handle, LAUNCH), problem);
}

odtc_code odtc_library_open(const odtc_options *options, const uint8_t digest[ODTC_SHA256_BYTES],
                            const odtc_program *program, odtc_library *library,
                            odtc_problem *problem) {
  const odtc_kernels *table = options->kernels;
  if (table)
    return check_identity(TABLE, table->program, sizeof table->program, digest, problem)
               ? problem->code
               : find_kernels(TABLE, table, program, library, problem);
  const char *what = options->library ? options->library : options->name;
  if (options->library ? load_file(what, digest, library, problem) : load(what, library, problem))
    return problem->code;
  if (find_kernels(what, NULL, program, library, problem)) return problem->code;
  if (options->name && check_loaded(what, digest, library, problem)) return problem->code;
  if (odtc_is_for_gpu(program)) return odtc_connect_host_code(what, library->handle, problem);
  return join(what, library, problem);
}

odtc_code odtc_library_load(const char *path, odtc_library *library, odtc_problem *problem) {
  return load(path, library, problem) ? problem->code : join(path, library, problem);
}

odtc_kernel odtc_library_kernel(const odtc_library *library, const char *name) {
  return in_library(library, name);
}

void odtc_library_close(odtc_library *library) {
  if (library->handle) dlclose(library->handle);
  free(library->kernels);
  *library = (odtc_library){0};
}
