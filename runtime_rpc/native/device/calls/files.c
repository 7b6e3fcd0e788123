/* Files of a session: names in its folder, and no paths. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "functions.h"
#include "memory.h"

int odtc_is_own_file(odtc_session *s, const char *name) {
  if (*name && *name != '.' && !strchr(name, '/')) return 1;
  odtc_refuse(s, "%.200s is not a valid file name in a session: it must not contain / or start with a dot", name);
  return 0;
}

int odtc_is_own_folder(const char *path) {
  struct stat about;
  return !lstat(path, &about) && S_ISDIR(about.st_mode) && about.st_uid == getuid() && !(about.st_mode & 022);
}

static void work_path(odtc_session *s, const odtc_value *v, odtc_result *result) {
  char folder[4096];
  if (!odtc_is_own_file(s, v->bytes)) return;
  if (!getcwd(folder, sizeof folder)) {
    odtc_refuse(s, "the session's folder is gone: %s", strerror(errno));
    return;
  }
  size_t room = strlen(folder) + strlen(v->bytes) + 2;
  char *path = malloc(room);
  if (!path) {
    odtc_refuse(s, "there is no memory for a path");
    return;
  }
  int length = snprintf(path, room, "%s/%s", folder, v->bytes);
  *result = (odtc_result){.type = VALUE_TEXT, .bytes = path, .count = (size_t)length, .owned = path};
}

/* Writes all bytes; a file that they do not fit on is removed. */
static void put(odtc_session *s, const odtc_value *v, int flags) {
  const char *name = v[0].bytes, *at = v[1].bytes;
  if (s->failure[0] || !odtc_is_own_file(s, name)) return;
  int file = open(name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC | flags, 0600);
  size_t left = v[1].count;
  ssize_t written = file < 0 ? -1 : 0;
  for (; file >= 0 && left && (written = write(file, at, left)) > 0; at += written)
    left -= (size_t)written;
  if (file < 0 || left) odtc_refuse(s, "%.100s: %s", name, strerror(errno));
  if (file >= 0 && left) unlink(name);
  if (file >= 0) close(file);
}

/* A file of that name that is mapped, such as a library, stays as it is. */
static void upload(odtc_session *s, const odtc_value *v, odtc_result *result) {
  (void)result;
  if (odtc_is_own_file(s, v->bytes)) unlink(v->bytes);
  put(s, v, O_EXCL);
}

/* For files that are more than a packet should be. */
static void append(odtc_session *s, const odtc_value *v, odtc_result *result) {
  (void)result;
  put(s, v, O_APPEND);
}

static void download(odtc_session *s, const odtc_value *v, odtc_result *result) {
  odtc_pages pages = {0};
  odtc_problem problem;
  if (!odtc_is_own_file(s, v->bytes)) return;
  if (odtc_map_file(v->bytes, &pages, &problem)) {
    odtc_refuse(s, "%s", problem.text);
    return;
  }
  void *copy = malloc(pages.bytes + 1);
  if (copy) memcpy(copy, pages.at, pages.bytes);
  if (!copy) odtc_refuse(s, "there is no memory for a file of %zu bytes", pages.bytes);
  *result = (odtc_result){.type = VALUE_BYTES, .bytes = copy, .count = pages.bytes, .owned = copy};
  odtc_unmap(&pages);
}

static void remove_file(odtc_session *s, const odtc_value *v, odtc_result *result) {
  (void)result;
  if (odtc_is_own_file(s, v->bytes) && unlink(v->bytes))
    odtc_refuse(s, "%.100s: %s", v->bytes, strerror(errno));
}

const odtc_named_function ODTC_FILE_FUNCTIONS[] = {
    {"tvm.rpc.server.workpath", "s", work_path},
    {"tvm.rpc.server.upload", "sb", upload},
    {"tvm.rpc.server.download", "s", download},
    {"tvm.rpc.server.remove", "s", remove_file},
    {"odtc.append", "sb", append},
    {NULL, NULL, NULL},
};
