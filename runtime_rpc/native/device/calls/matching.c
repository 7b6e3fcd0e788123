#define _DEFAULT_SOURCE
#include "matching.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Whether a name is of a pattern, in which a star is any letters. */
static int is_of(const char *name, const char *pattern, const char *end) {
  if (pattern == end) return !*name;
  if (*pattern != '*') return *name == *pattern && is_of(name + 1, pattern + 1, end);
  for (;; ++name) {
    if (is_of(name, pattern + 1, end)) return 1;
    if (!*name) return 0;
  }
}

/* cpu2 comes before cpu10. */
static int by_number(const struct dirent **one, const struct dirent **other) {
  size_t a = strlen((*one)->d_name), b = strlen((*other)->d_name);
  return a == b ? strcmp((*one)->d_name, (*other)->d_name) : a < b ? -1 : 1;
}

void odtc_match(const char *folder, const char *pattern,
                void (*found)(void *with, const char *path, int why), void *with) {
  const char *end = pattern + strcspn(pattern, "/");
  char path[MOST_PATH];
  const char *between = *folder && folder[strlen(folder) - 1] == '/' ? "" : "/";
  if (!memchr(pattern, '*', (size_t)(end - pattern))) {
    snprintf(path, sizeof path, "%s%s%.*s", folder, between, (int)(end - pattern), pattern);
    if (*end) odtc_match(path, end + 1, found, with);
    if (!*end) found(with, path, 0);
    return;
  }
  struct dirent **names;
  int count = scandir(folder, &names, NULL, by_number);
  if (count < 0) found(with, folder, errno);
  for (int n = 0; n < count; ++n) {
    if (names[n]->d_name[0] != '.' && is_of(names[n]->d_name, pattern, end)) {
      snprintf(path, sizeof path, "%s%s%.200s", folder, between, names[n]->d_name);
      if (*end) odtc_match(path, end + 1, found, with);
      if (!*end) found(with, path, 0);
    }
    free(names[n]);
  }
  if (count >= 0) free(names);
}
