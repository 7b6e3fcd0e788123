/* Memory of the system: files that are mapped, and pages that change their size. */
#ifndef ODTC_MEMORY_H
#define ODTC_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include "problem.h"

/* Where tensors begin, which vector loads of kernels count on. */
enum { ODTC_ALIGNMENT = 64 };

/* Pages, of a file or of nobody; all zero is none. */
typedef struct {
  uint8_t *at;
  size_t bytes;
} odtc_pages;

/* Memory of the heap from a multiple of the alignment; NULL where there is none. */
void *odtc_allocate(size_t bytes);
/* Rounds up to the alignment; SIZE_MAX where that is too large. */
size_t odtc_aligned(size_t bytes);

/* Maps a file; what is written there stays in this process. */
odtc_code odtc_map_file(const char *path, odtc_pages *pages, odtc_problem *problem);
/* The same of a part of it, which ends where the pages do; they begin with a page of the file. */
odtc_code odtc_map_part(const char *path, uint64_t offset, size_t bytes, odtc_pages *pages,
                        odtc_problem *problem);
/* Lets the system have the whole pages of a part of a mapped file, which nobody wrote to: whoever reads
   there again reads the file. */
void odtc_leave_pages(const void *at, size_t bytes);
/* Copies a part of a mapped file, whose pages are left behind: they are not resident beside the copy. */
void odtc_copy_out(void *to, const uint8_t *from, size_t bytes);
/* Pages of a new file without a name in a folder, all of whose blocks are allocated; `what` they hold. */
odtc_code odtc_map_storage(const char *folder, const char *what, size_t bytes, odtc_pages *pages,
                           odtc_problem *problem);
/* Changes the size of anonymous pages; those that stay keep what is in them. They may move. Where
   there is no memory, those that were there stay. */
odtc_code odtc_resize(odtc_pages *pages, size_t bytes, odtc_problem *problem);
void odtc_unmap(odtc_pages *pages);

#endif
