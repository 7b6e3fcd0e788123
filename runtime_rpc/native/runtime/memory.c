#define _GNU_SOURCE
#include "memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
  MOST_PATH = 4096, /* that Linux takes, with the zero */
  PIECE = 1 << 20   /* of a file that is copied */
};

void *odtc_allocate(size_t bytes) {
  void *at = NULL; /* aligned_alloc is missing in Android before 9 */
  return posix_memalign(&at, ODTC_ALIGNMENT, odtc_aligned(bytes)) ? NULL : at;
}

size_t odtc_aligned(size_t bytes) {
  size_t more = bytes + (ODTC_ALIGNMENT - 1);
  return more < bytes ? SIZE_MAX : more / ODTC_ALIGNMENT * ODTC_ALIGNMENT;
}

odtc_code odtc_map_file(const char *path, odtc_pages *pages, odtc_problem *problem) {
  return odtc_map_part(path, 0, 0, pages, problem);
}

odtc_code odtc_map_part(const char *path, uint64_t offset, size_t bytes, odtc_pages *pages,
                        odtc_problem *problem) {
  int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe would be waited for */
  struct stat about;
  if (file < 0 || fstat(file, &about)) {
    odtc_fail(problem, ODTC_NO_FILE, "%.300s cannot be read: %s", path, strerror(errno));
    if (file >= 0) close(file);
    return problem->code;
  }
  if (!S_ISREG(about.st_mode) || about.st_size <= 0) {
    close(file);
    return odtc_fail(problem, ODTC_DAMAGED, "%.300s is %s", path,
                     S_ISREG(about.st_mode)   ? "empty"
                     : S_ISDIR(about.st_mode) ? "a folder"
                                              : "a pipe or a device, not a file");
  }
  uint64_t size = (uint64_t)about.st_size;
  if (!bytes) bytes = (size_t)size;
  if (bytes > size || offset > size - bytes) {
    close(file);
    return odtc_fail(problem, ODTC_DAMAGED, "%.300s has %llu bytes, and ends before it should", path,
                     (unsigned long long)size);
  }
  size_t before = (size_t)(offset % (uint64_t)sysconf(_SC_PAGESIZE));
  bytes += before;
  void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, (off_t)(offset - before));
  int error = errno;
  close(file);
  if (at == MAP_FAILED)
    return odtc_fail(problem, ODTC_NO_MEMORY, "%.300s cannot be mapped: %s", path,
                     strerror(error));
  *pages = (odtc_pages){at, bytes};
  return ODTC_OK;
}

void odtc_leave_pages(const void *at, size_t bytes) {
  const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = (uintptr_t)at;
  const uintptr_t first = (begin + page - 1) / page * page, end = (begin + bytes) / page * page;
  if (first < end) madvise((void *)first, end - first, MADV_DONTNEED);
}

void odtc_copy_out(void *to, const uint8_t *from, size_t bytes) {
  for (size_t done = 0, piece; done < bytes; done += piece) {
    piece = bytes - done < PIECE ? bytes - done : PIECE;
    memcpy((uint8_t *)to + done, from + done, piece);
    odtc_leave_pages(from + done, piece);
  }
}

/* Blocks for all of a file, as those that are missing would end the process in a step. */
static int reserve(int file, off_t bytes) {
#ifdef __APPLE__
  fstore_t blocks = {.fst_flags = F_ALLOCATEALL, .fst_posmode = F_PEOFPOSMODE, .fst_length = bytes};
  return fcntl(file, F_PREALLOCATE, &blocks) || ftruncate(file, bytes) ? errno : 0;
#else
  return posix_fallocate(file, 0, bytes);
#endif
}

static odtc_code no_room(const char *folder, const char *what, size_t bytes, int error,
                         odtc_problem *problem) {
  return odtc_fail(problem, ODTC_NO_ROOM, "no file of %zu bytes for %.100s in %.200s: %s", bytes,
                   what, folder, strerror(error));
}

odtc_code odtc_map_storage(const char *folder, const char *what, size_t bytes, odtc_pages *pages,
                           odtc_problem *problem) {
  char path[MOST_PATH];
  int length = snprintf(path, sizeof path, "%s/odtc-XXXXXX", folder);
  if (length < 0 || (size_t)length >= sizeof path)
    return no_room(folder, what, bytes, ENAMETOOLONG, problem);
  int file = mkstemp(path);
  if (file < 0) return no_room(folder, what, bytes, errno, problem);
  unlink(path);
  int error = reserve(file, (off_t)bytes);
  void *at = error ? MAP_FAILED
                   : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (!error && at == MAP_FAILED) error = errno;
  close(file);
  if (at == MAP_FAILED) return no_room(folder, what, bytes, error, problem);
  *pages = (odtc_pages){at, bytes};
  return ODTC_OK;
}

static void *resized(const odtc_pages *pages, size_t bytes) {
#ifdef __linux__
  if (pages->at) return mremap(pages->at, pages->bytes, bytes, MREMAP_MAYMOVE);
#endif
  void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
#ifdef MADV_HUGEPAGE
  if (at != MAP_FAILED) madvise(at, bytes, MADV_HUGEPAGE); /* a system may have none */
#endif
#ifndef __linux__
  if (at != MAP_FAILED && pages->at) {
    memcpy(at, pages->at, bytes < pages->bytes ? bytes : pages->bytes);
    munmap(pages->at, pages->bytes);
  }
#endif
  return at;
}

odtc_code odtc_resize(odtc_pages *pages, size_t bytes, odtc_problem *problem) {
  if (bytes == pages->bytes) return ODTC_OK;
  if (!bytes) {
    odtc_unmap(pages);
    return ODTC_OK;
  }
  void *at = resized(pages, bytes);
  if (at == MAP_FAILED)
    return odtc_fail(problem, ODTC_NO_MEMORY, "there is no memory for %zu bytes: %s", bytes,
                     strerror(errno));
  *pages = (odtc_pages){at, bytes};
  return ODTC_OK;
}

void odtc_unmap(odtc_pages *pages) {
  if (pages->at) munmap(pages->at, pages->bytes);
  *pages = (odtc_pages){NULL, 0};
}
