/* Weights that an artifact leaves in files of its model: a client sends them once, and later sessions find them
   in folders beside their own.

   ../weights/KEY/FILE    KEY stands for the names and bytes of all files; each is put together in the session's
                          own folder first, weights-KEY, so that what is kept is whole

   What lies there is not trusted: who opens a program over it compares all weights with their hashes. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "child.h"
#include "functions.h"
#include "memory.h"

static const char KEPT[] = "../weights";
enum { MOST_KEPT = 4, MOST_PATH = 4096 };
typedef char path_text[MOST_PATH];

/* Whether a path stays in the folder that it is from: it is not absolute, and no part of it is empty, . or .. */
static int stays_inside(const char *path) {
  for (const char *part = path, *next; part; part = next) {
    size_t length = (next = strchr(part, '/')) ? (size_t)(next++ - part) : strlen(part);
    if (!length || (part[0] == '.' && (length == 1 || (length == 2 && part[1] == '.')))) return 0;
  }
  return 1;
}

/* Where what has a key is kept, or put together; 0 and a failure where that is none. */
static int path_of(odtc_session *s, const char *folder, const char *key, path_text path) {
  if (!odtc_is_own_file(s, key)) return 0;
  if (snprintf(path, MOST_PATH, "%s%s", folder, key) < MOST_PATH) return 1;
  odtc_refuse(s, "%.50s... is not a valid key of weights: it is too long", key);
  return 0;
}

static int kept_at(odtc_session *s, const char *key, path_text path) { return path_of(s, "../weights/", key, path); }
static int made_at(odtc_session *s, const char *key, path_text path) { return path_of(s, "weights-", key, path); }

static int is_folder(const char *path) {
  struct stat about;
  return !lstat(path, &about) && S_ISDIR(about.st_mode);
}

static void give_path(const char *path, odtc_session *s, odtc_result *result) {
  odtc_text text = {0};
  odtc_text_put(&text, "%s", path);
  odtc_give_text(s, &text, result);
}

/* How many are kept, and which of them was asked for longest ago. */
static size_t look(path_text oldest) {
  size_t count = 0;
  struct timespec least = {0};
  DIR *list = opendir(KEPT);
  for (struct dirent *each; list && (each = readdir(list));) {
    path_text path;
    struct stat about;
    if (each->d_name[0] == '.') continue;
    snprintf(path, sizeof path, "%s/%s", KEPT, each->d_name);
    if (lstat(path, &about)) continue;
    const struct timespec *at = &about.st_mtim;
    if (!count++ || at->tv_sec < least.tv_sec || (at->tv_sec == least.tv_sec && at->tv_nsec < least.tv_nsec))
      least = *at, strcpy(oldest, path);
  }
  if (list) closedir(list);
  return count;
}

static int has_room(int64_t bytes) {
  odtc_pages pages = {0};
  odtc_problem problem;
  int fits = bytes <= 0 || !odtc_map_storage(".", "weights", (size_t)bytes, &pages, &problem);
  odtc_unmap(&pages);
  return fits;
}

/* Sessions that have files of what goes mapped keep these. */
static void make_room(int64_t bytes) {
  path_text oldest;
  for (size_t left = look(oldest); left && (left >= MOST_KEPT || !has_room(bytes));) {
    odtc_remove_tree(oldest);
    size_t now = look(oldest);
    if (now == left) return; /* it cannot be removed */
    left = now;
  }
}

/* The folder of what is kept; where there is none, an empty text, and room for so many bytes where it can be made. */
static void find(odtc_session *s, const odtc_value *v, odtc_result *result) {
  path_text path;
  if (!kept_at(s, v[0].bytes, path)) return;
  int is_there = odtc_is_own_folder(KEPT) && is_folder(path);
  if (is_there) utimensat(AT_FDCWD, path, NULL, 0); /* it is of use */
  if (!is_there && odtc_is_own_folder(KEPT)) make_room(v[1].number);
  give_path(is_there ? path : "", s, result);
}

/* Puts an uploaded file under its path. */
static void add(odtc_session *s, const odtc_value *v, odtc_result *result) {
  (void)result;
  path_text folder, path;
  if (!made_at(s, v[0].bytes, folder) || !odtc_is_own_file(s, v[1].bytes)) return;
  if (!stays_inside(v[2].bytes) || snprintf(path, sizeof path, "%s/%s", folder, v[2].bytes) >= MOST_PATH) {
    odtc_refuse(s, "%.200s is not a path in the folder of weights", v[2].bytes);
    return;
  }
  for (char *at = path; (at = strchr(at, '/')); *at++ = '/') {
    *at = '\0';
    mkdir(path, 0700);
  }
  if (rename(v[1].bytes, path)) odtc_refuse(s, "%.200s: %s", v[2].bytes, strerror(errno));
}

/* Keeps what was put together; where that is not to be had, it is this session's alone. Returns the folder. */
static void keep(odtc_session *s, const odtc_value *v, odtc_result *result) {
  path_text made, path;
  if (!made_at(s, v[0].bytes, made) || !kept_at(s, v[0].bytes, path)) return;
  mkdir(KEPT, 0700);
  int is_kept = odtc_is_own_folder(KEPT) && (!rename(made, path) || is_folder(path));
  give_path(is_kept ? path : made, s, result);
}

/* Lets go of what turned out to be damaged. */
static void leave(odtc_session *s, const odtc_value *v, odtc_result *result) {
  (void)result;
  path_text path;
  if (kept_at(s, v[0].bytes, path) && odtc_is_own_folder(KEPT)) odtc_remove_tree(path);
}

const odtc_named_function ODTC_WEIGHTS_FUNCTIONS[] = {
    {"odtc.weights.find", "si", find},   {"odtc.weights.add", "sss", add}, {"odtc.weights.keep", "s", keep},
    {"odtc.weights.leave", "s", leave}, {NULL, NULL, NULL},
};
