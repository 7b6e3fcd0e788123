#define _GNU_SOURCE
#include "new_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_LINKS = 40 }; /* that Linux follows */

static int write_all(int file, const void *data, size_t bytes) {
  for (const char *at = data; bytes;) {
    ssize_t written = write(file, at, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return -1;
    at += written, bytes -= (size_t)written;
  }
  return 0;
}

/* Opens a file for this thread alone, and empty: what a process left of it that was killed while it wrote
   is written over. Whoever waited for another's may have a file that has got another name meanwhile. */
static int open_alone(const char *path) {
  for (;;) {
    struct stat held, found;
    int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file < 0) return -1;
    while (flock(file, LOCK_EX))
      if (errno != EINTR) return close(file), -1;
    if (fstat(file, &held)) return close(file), -1;
    if (!stat(path, &found) && found.st_ino == held.st_ino && found.st_dev == held.st_dev)
      return ftruncate(file, 0) ? (close(file), -1) : file;
    close(file);
  }
}

static int fail(int error) {
  errno = error;
  return -1;
}

/* Puts the first bytes of one path and all of another together. */
static int join(char out[ODTC_MOST_PATH], const char *first, size_t length, const char *rest) {
  int used = snprintf(out, ODTC_MOST_PATH, "%.*s%s", (int)length, first, rest);
  return used < 0 || used >= ODTC_MOST_PATH ? fail(ENAMETOOLONG) : 0;
}

/* Replaces a path that is a link by where it leads, as far as it does. */
static int follow(char path[ODTC_MOST_PATH]) {
  char target[ODTC_MOST_PATH], link[ODTC_MOST_PATH];
  for (int links = 0; links <= MOST_LINKS; ++links) {
    ssize_t length = readlink(path, target, sizeof target - 1);
    if (length < 0) return 0; /* a file, or none yet */
    target[length] = '\0';
    memcpy(link, path, sizeof link);
    const char *name = *target == '/' ? NULL : strrchr(link, '/');
    if (join(path, link, name ? (size_t)(name + 1 - link) : 0, target)) return -1;
  }
  return fail(ELOOP);
}

static int check_replaced(const char *path) {
  struct stat about;
  if (stat(path, &about) || S_ISREG(about.st_mode)) return 0;
  return fail(S_ISDIR(about.st_mode) ? EISDIR : EINVAL);
}

void odtc_begin_file(odtc_new_file *f, const char *path) {
  *f = (odtc_new_file){.file = -1};
  if (join(f->path, path, strlen(path), "") || follow(f->path) || check_replaced(f->path) ||
      join(f->beside, f->path, strlen(f->path), ".odtc-part") || (f->file = open_alone(f->beside)) < 0)
    f->error = errno;
}

void odtc_add_to_file(odtc_new_file *f, const void *data, size_t bytes) {
  if (!f->error && write_all(f->file, data, bytes)) f->error = errno;
}

odtc_code odtc_end_file(odtc_new_file *f, const char *path, odtc_problem *problem) {
  if (!f->error && (fsync(f->file) || rename(f->beside, f->path))) f->error = errno;
  if (f->file >= 0 && f->error) unlink(f->beside);
  if (f->file >= 0) close(f->file);
  if (!f->error) return ODTC_OK;
  int is_full = f->error == ENOSPC || f->error == EDQUOT;
  return odtc_fail(problem, is_full ? ODTC_NO_ROOM : ODTC_NO_FILE, "%.300s cannot be written: %s", path,
                   strerror(f->error));
}
