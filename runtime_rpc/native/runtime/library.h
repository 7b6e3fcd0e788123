/* The library of a program's kernels: what it belongs to, and the kernels of each set by their numbers. */
#ifndef ODTC_LIBRARY_H
#define ODTC_LIBRARY_H

#include "kernel_abi.h"
#include "program.h"
#include "sets.h"
#include "sha256.h"

typedef struct {
  void *handle;
  odtc_kernel *kernels; /* of the first set, then those of the next one */
} odtc_library;

/* Loads a library whose build id is the hash of a program, or takes such a table, and finds the
   program's kernels. */
odtc_code odtc_library_open(const odtc_options *options, const uint8_t digest[ODTC_SHA256_BYTES],
                            const odtc_program *program, odtc_library *library,
                            odtc_problem *problem);
/* Loads a library that belongs to no program; `path` has a slash. Its kernels are found by the symbols that
   they are; NULL if there is none. */
odtc_code odtc_library_load(const char *path, odtc_library *library, odtc_problem *problem);
odtc_kernel odtc_library_kernel(const odtc_library *library, const char *name);
void odtc_library_close(odtc_library *library);

/* Finds the build id of a library all of whose segments are in its file. */
odtc_code odtc_build_id(const uint8_t *file, size_t bytes, const uint8_t **id, size_t *id_bytes,
                        odtc_problem *problem);

/* Finds the build id of the library that is loaded at an address; `id` is NULL if it has none. */
void odtc_loaded_build_id(const void *address, const uint8_t **id, size_t *id_bytes);

#endif
