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

/* Whether a tensor of a file is one of the step's, but for its name. */
int odtc_entry_fits(const odtc_tensor *tensor, const odtc_entry *entry);

/* Notes that it is not, with the types and shapes of both. */
odtc_code odtc_entry_misfit(const odtc_tensor *tensor, const odtc_entry *entry,
                            odtc_problem *problem);

/* Who is told what is in a file. */
typedef struct {
  odtc_code (*take)(void *with, const odtc_entry *entry, odtc_problem *problem);
  /* A text of its metadata, which is there only meanwhile; NULL where nobody wants them. */
  odtc_code (*hear)(void *with, const char *name, const char *text, odtc_problem *problem);
  void *with;
} odtc_listener;

/* Tells of each tensor and each text of a file that is in memory, until one is a problem. */
odtc_code odtc_tensor_file_read(odtc_pages file, odtc_listener listener, odtc_problem *problem);

#endif
