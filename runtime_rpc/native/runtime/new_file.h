/* A file that is written whole or not at all: beside its path at first, so that one that is there stays until the
   new one is whole. */
#ifndef ODTC_NEW_FILE_H
#define ODTC_NEW_FILE_H

#include <stddef.h>

#include "problem.h"

enum { ODTC_MOST_PATH = 4096 }; /* that Linux takes, with the zero */

/* Once something failed, nothing more is done; the end says it. */
typedef struct {
  char path[ODTC_MOST_PATH], beside[ODTC_MOST_PATH];
  int file, error;
} odtc_new_file;

/* A path that is a link is followed, and stays one. No folder, pipe or device is replaced. */
void odtc_begin_file(odtc_new_file *file, const char *path);
void odtc_add_to_file(odtc_new_file *file, const void *data, size_t bytes);
odtc_code odtc_end_file(odtc_new_file *file, const char *path, odtc_problem *problem);

#endif
