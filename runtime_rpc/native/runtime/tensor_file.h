/* A safetensors file: a header of JSON, and the bytes of its tensors. */
#ifndef ODTC_TENSOR_FILE_H
#define ODTC_TENSOR_FILE_H

#include "memory.h"
#include "program.h"

typedef struct {
  const char *name;
  unsigned code, bits;
  size_t rank;
  int64_t shape[ODTC_MOST_RANK];
  uint8_t *data; /* as many bytes as the shape says, within the file */
  size_t bytes;
} odtc_entry;

/* Calls `take` for each tensor of a file that is in memory, until one returns a problem. */
odtc_code odtc_tensor_file_read(odtc_pages file,
                                odtc_code (*take)(void *with, const odtc_entry *entry,
                                                  odtc_problem *problem),
                                void *with, odtc_problem *problem);

#endif
