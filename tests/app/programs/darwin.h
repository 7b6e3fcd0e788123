/* What the runtime uses of Apple's systems beyond POSIX, to be compiled for them where their headers are not:
   only names and types are theirs, and what is linked with these declarations never runs. */
#ifndef ODTC_DARWIN_H
#define ODTC_DARWIN_H

#include "bionic.h"

typedef struct {
  unsigned fst_flags;
  int fst_posmode;
  off_t fst_offset, fst_length, fst_bytesalloc;
} fstore_t;
enum { F_ALLOCATEALL = 4, F_PEOFPOSMODE = 3, F_PREALLOCATE = 42 };
int fcntl(int, int, ...);
int sysctlbyname(const char *, void *, size_t *, void *, size_t);

#endif
